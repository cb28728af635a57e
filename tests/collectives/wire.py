"""Collectives as single messages that are counted: rings and pairs, without the product's formulas."""

from math import prod

import numpy as np

from planner.collectives import World
from planner.collectives.messages import senders, transfers
from planner.core.collective import Step
from planner.core.mesh import DeviceMesh
from tests.properties.strategies import shard


class Wire:
    """Carries arrays between ranks and counts elements."""

    def __init__(self, devices: int) -> None:
        self.sent = [0] * devices
        self.received = [0] * devices
        self.messages = [0] * devices

    def carry(self, sender: int, receiver: int, array: np.ndarray) -> np.ndarray:
        assert sender != receiver
        self.sent[sender] += array.size
        self.received[receiver] += array.size
        self.messages[sender] += 1
        return array.copy()


def run(step: Step, world: World, mesh: DeviceMesh, wire: Wire) -> World:
    """Do a step by messages."""
    out = list(world)
    for rank in range(mesh.device_count):
        if mesh.index(rank, step.axes) == 0:
            group = mesh.group(step.axes, rank)
            parts = _FAMILIES[step.kind](step, [world[r] for r in group], group, wire, mesh)
            for member, part in zip(group, parts, strict=True):
                out[member] = part
    return out


def _ring_gather(held: World, group: tuple[int, ...], wire: Wire) -> list[World]:
    n = len(group)
    known = [{i: held[i]} for i in range(n)]
    for turn in range(n - 1):
        for i in range(n):
            chunk = (i - turn) % n
            known[(i + 1) % n][chunk] = wire.carry(group[i], group[(i + 1) % n], known[i][chunk])
    return [[chunks[i] for i in range(n)] for chunks in known]


def _ring_reduce(chunks: list[World], group: tuple[int, ...], wire: Wire) -> World:
    n = len(group)
    total = [list(row) for row in chunks]
    for turn in range(n - 1):
        moving = [
            (i, (i - turn - 1) % n, wire.carry(group[i], group[(i + 1) % n], total[i][(i - turn - 1) % n]))
            for i in range(n)
        ]
        for i, chunk, array in moving:
            total[(i + 1) % n][chunk] = total[(i + 1) % n][chunk] + array
    return [total[i][i] for i in range(n)]


def _all_gather(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    if step.source.even(step.shape, mesh):
        rows = _ring_gather(held, group, wire)
    else:
        rows = [[x if i == j else wire.carry(i, j, x) for i, x in zip(group, held, strict=True)] for j in group]
    places = [shard(_index(step), step.source, mesh, rank) for rank in group]
    return [_assembled(step, mesh, rank, places, row) for rank, row in zip(group, rows, strict=True)]


def _reduce_scatter(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    index = _index(step)
    wanted = [shard(index, step.target, mesh, rank) for rank in group]
    whole = shard(index, step.source, mesh, group[0])
    parts = [[x[np.isin(whole, want)].reshape(want.shape) for want in wanted] for x in held]
    if step.target.even(step.shape, mesh) and step.source.even(step.shape, mesh):
        return _ring_reduce(parts, group, wire)
    return [
        sum(row[j] if i == j else wire.carry(group[i], group[j], row[j]) for i, row in enumerate(parts))
        for j in range(len(group))
    ]


def _all_reduce(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    flat = [np.array_split(x.reshape(-1), len(group)) for x in held]
    whole = _ring_gather(_ring_reduce(flat, group, wire), group, wire)
    return [np.concatenate(row).reshape(x.shape) for row, x in zip(whole, held, strict=True)]


def _all_to_all(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    index = _index(step)
    names = [shard(index, step.source, mesh, rank) for rank in group]
    wanted = [shard(index, step.target, mesh, rank) for rank in group]
    out = []
    for j, want in enumerate(wanted):
        row = []
        for i, (name, x) in enumerate(zip(names, held, strict=True)):
            piece = x[np.isin(name, want)]
            row.append(piece if i == j else wire.carry(group[i], group[j], piece))
        out.append(_assembled(step, mesh, group[j], [name[np.isin(name, want)] for name in names], row))
    return out


def _permute(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    found = senders(step.source, step.target, step.shape, mesh)
    out, serving = [], []
    for rank in group:
        want = step.target.shape_of(step.shape, mesh, rank)
        serving += [] if 0 in want else [found[rank]]
        if 0 in want:
            out.append(np.zeros(want, held[0].dtype))
            continue
        x = held[group.index(found[rank])]
        out.append(x if found[rank] == rank else wire.carry(found[rank], rank, x))
    assert len(set(serving)) == len(serving), "a rank serves two"
    return out


def _exchange(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    index = _index(step)
    names = {rank: shard(index, step.source, mesh, rank) for rank in group}
    wanted = {rank: shard(index, step.target, mesh, rank) for rank in group}
    known = {
        rank: dict(zip(names[rank].reshape(-1).tolist(), x.reshape(-1).tolist(), strict=True))
        for rank, x in zip(group, held, strict=True)
    }
    got: dict[int, dict[int, float]] = {rank: {} for rank in group}
    for message in transfers(step.source, step.target, step.shape, mesh, group):
        box = tuple(slice(*bounds) for bounds in message.source)
        name = names[message.sender][box].reshape(-1)[message.start : message.stop]
        place = tuple(slice(*bounds) for bounds in message.target)
        there = wanted[message.receiver][place].reshape(-1)[message.start : message.stop]
        np.testing.assert_array_equal(name, there)
        wire.carry(message.sender, message.receiver, name)
        for i in name.tolist():
            assert i not in known[message.receiver], "sent what the receiver holds"
            assert i not in got[message.receiver], "sent twice"
            got[message.receiver][i] = known[message.sender][i]
    return [
        np.array([{**known[rank], **got[rank]}[i] for i in want.reshape(-1).tolist()], held[0].dtype).reshape(
            want.shape
        )
        for rank, want in wanted.items()
    ]


def _sum_exchange(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    """Send what messages say, and hold every rank to the summands: each once, and each that it is due."""
    index = _index(step)
    names = {rank: shard(index, step.source, mesh, rank) for rank in group}
    wanted = {rank: shard(index, step.target, mesh, rank) for rank in group}
    finished = tuple(axis for axis in step.source.partial if axis not in step.target.partial)
    known: dict[int, dict[tuple[int, int], float]] = {}
    for rank, x in zip(group, held, strict=True):
        place = mesh.index(rank, finished)
        mine = zip(names[rank].reshape(-1).tolist(), x.reshape(-1).tolist(), strict=True)
        known[rank] = {(i, place): value for i, value in mine}
    got: dict[int, dict[tuple[int, int], float]] = {rank: {} for rank in group}
    for message in transfers(step.source, step.target, step.shape, mesh, group):
        box = tuple(slice(*bounds) for bounds in message.source)
        name = names[message.sender][box].reshape(-1)[message.start : message.stop]
        wire.carry(message.sender, message.receiver, name)
        for i in name.tolist():
            key = i, mesh.index(message.sender, finished)
            assert key not in known[message.receiver], "sent what the receiver holds"
            assert key not in got[message.receiver], "sent twice"
            got[message.receiver][key] = known[message.sender][key]
    out = []
    for rank, want in wanted.items():
        sums: dict[int, float] = {}
        made = [axis for axis in step.target.partial if axis not in step.source.partial]
        first = all(mesh.index(rank, (axis,)) == 0 for axis in made if axis not in step.source.sharded)
        for (i, _), value in [*(known[rank].items() if first else ()), *got[rank].items()]:
            sums[i] = sums.get(i, 0) + value
        flat = [sums.get(i, 0) for i in want.reshape(-1).tolist()]
        out.append(np.array(flat, held[0].dtype).reshape(want.shape))
    return out


def _index(step: Step) -> np.ndarray:
    """Number the elements of the whole tensor: what a rank holds is known by their numbers."""
    return np.arange(prod(step.shape)).reshape(step.shape)


def _assembled(step: Step, mesh: DeviceMesh, rank: int, places: World, row: World) -> np.ndarray:
    want = shard(_index(step), step.target, mesh, rank)
    flat = np.zeros(prod(step.shape), row[0].dtype)
    for place, x in zip(places, row, strict=True):
        flat[place.reshape(-1)] = x.reshape(-1)
    return flat[want]


_FAMILIES = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "exchange": _exchange,
    "permute": _permute,
    "reduce_scatter": _reduce_scatter,
    "sum_exchange": _sum_exchange,
}
