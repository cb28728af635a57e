"""Collectives as single messages that are counted: rings and pairs, without the product's formulas."""

from math import prod

import numpy as np

from planner.collectives import World
from planner.collectives.boxes import transfers
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
    return [np.concatenate(row, axis=step.dim) for row in _ring_gather(held, group, wire)]


def _reduce_scatter(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    return _ring_reduce([np.split(x, len(group), axis=step.dim) for x in held], group, wire)


def _all_reduce(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    flat = [np.array_split(x.reshape(-1), len(group)) for x in held]
    whole = _ring_gather(_ring_reduce(flat, group, wire), group, wire)
    return [np.concatenate(row).reshape(step.target_shape) for row in whole]


def _all_to_all(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    parts = [np.split(x, len(group), axis=step.to_dim) for x in held]
    return [
        np.concatenate(
            [parts[i][j] if i == j else wire.carry(group[i], group[j], parts[i][j]) for i in range(len(group))],
            axis=step.dim,
        )
        for j in range(len(group))
    ]


def _exchange(step, held, group, wire, mesh):  # type: ignore[no-untyped-def]
    shape = step.shape
    index = np.arange(prod(shape)).reshape(shape)
    names = [shard(index, step.source, mesh, rank) for rank in group]
    wanted = [shard(index, step.target, mesh, rank) for rank in group]
    known = [
        dict(zip(n.reshape(-1).tolist(), x.reshape(-1).tolist(), strict=True)) for n, x in zip(names, held, strict=True)
    ]
    got: list[dict[int, float]] = [{} for _ in group]
    for message in transfers(step.source, step.target, shape, mesh):
        box = tuple(slice(*bounds) for bounds in message.source)
        name = names[message.sender][box].reshape(-1)[message.start : message.stop]
        place = tuple(slice(*bounds) for bounds in message.target)
        there = wanted[message.receiver][place].reshape(-1)[message.start : message.stop]
        np.testing.assert_array_equal(name, there)
        wire.carry(group[message.sender], group[message.receiver], name)
        for i in name.tolist():
            assert i not in known[message.receiver], "sent what the receiver holds"
            assert i not in got[message.receiver], "sent twice"
            got[message.receiver][i] = known[message.sender][i]
    return [
        np.array([{**had, **new}[i] for i in want.reshape(-1).tolist()], held[0].dtype).reshape(want.shape)
        for had, new, want in zip(known, got, wanted, strict=True)
    ]


_FAMILIES = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "exchange": _exchange,
    "reduce_scatter": _reduce_scatter,
}
