"""Rank processes that run written steps on whole numbers and say what they handed to torch.distributed."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.simulate import scatter
from tests.ranks import processes

RUNTIME = "planner.exporters.runtime"


@dataclass(frozen=True, slots=True)
class Case:
    """Steps from a layout, with the lines that the exporter writes for them; `seed` makes the values.

    Those that are measured communicate nothing: what a library makes inside is none of the steps' business.
    """

    mesh: DeviceMesh
    shape: tuple[int, ...]
    source: Layout
    steps: tuple[Step, ...]
    lines: tuple[str, ...]
    seed: int
    dtype: str = "int64"
    measured: bool = False
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What is wrong on a rank, and per step the elements that it handed to torch.distributed and got from it.

    `room` is, per step of a measured case, the most bytes that it made beside its input, its result among them.
    """

    wrong: str
    handed: tuple[tuple[int, int], ...]
    log: tuple[tuple[str, tuple[str, ...], int, int], ...]
    room: tuple[int, ...]


def run_all(cases: Sequence[Case], world: int = 8) -> list[list[Answer]]:
    """Run cases on one group of ranks; return the answers by case and rank."""
    answers = []
    with processes(world, serve, list(cases)) as pipes:
        for pipe in pipes:
            assert pipe.poll(240), "a rank gave no answer"
            answers.append(pipe.recv())
    failed = [a for a in answers if isinstance(a, str)]
    assert not failed, failed[0]
    return [list(by_rank) for by_rank in zip(*answers, strict=True)]


def serve(rank: int, world: int, store: str, cases: list[Case], pipe: Connection) -> None:
    """Run all cases in a rank's process and send the answers, or the text of an error."""
    import torch
    import torch.distributed as dist

    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        modules = [importlib.import_module(f"{RUNTIME}.{name}") for name in ("steps", "exchange", "uneven")]
        names = {name: value for module in modules for name, value in vars(module).items()}
        meshes: dict[DeviceMesh, Any] = {}
        answers = []
        for case in cases:
            if case.mesh not in meshes:
                meshes[case.mesh] = importlib.import_module(f"{RUNTIME}.mesh").Mesh(dict(case.mesh.axes))
            answers.append(_run(case, rank, meshes[case.mesh], names, modules[0]))
        pipe.send(answers)
    except Exception as problem:
        import traceback

        pipe.send("".join(traceback.format_exception(problem)))


def _run(case: Case, rank: int, mesh: Any, names: dict[str, Any], steps: Any) -> Answer:
    import torch

    array = np.random.default_rng(case.seed).integers(-100, 100, case.shape)
    world = scatter(array, case.source, case.mesh, np.random.default_rng(case.seed))
    x = torch.from_numpy(world[rank]).to(getattr(torch, case.dtype))
    mesh.log, handed, room = [], [], []
    for step, line in zip(case.steps, case.lines, strict=True):
        before = x.clone()
        made: list[int] = []
        with counted(steps, idle=case.measured) as counts, measured(made) if case.measured else nullcontext():
            after = eval(line, names)(x, mesh)
        room += made
        if case.compiled:
            _compile(eval(line, names), x, after, mesh)
        if case.measured:
            return Answer("", tuple(counts), (), tuple(room))
        world = COLLECTIVES[step.kind].run(step, world, case.mesh)
        handed.append((sum(a for a, _ in counts), sum(b for _, b in counts)))
        expected = torch.from_numpy(np.ascontiguousarray(world[rank])).to(after.dtype)
        if after.dtype != x.dtype or tuple(after.shape) != expected.shape or not torch.equal(after, expected):
            return Answer(f"{line}: {tuple(after.shape)} {after.dtype}", tuple(handed), tuple(mesh.log), tuple(room))
        if not torch.equal(x, before) or not after.is_contiguous():
            return Answer(f"{line} changed its input, or gives a view", tuple(handed), tuple(mesh.log), tuple(room))
        x = after
    return Answer("", tuple(handed), tuple(mesh.log), tuple(room))


def _compile(step: Any, x: Any, expected: Any, mesh: Any) -> None:
    """Do a step as one compiled graph."""
    import torch

    log, mesh.log = mesh.log, None
    torch.compiler.reset()
    again = torch.compile(lambda y: step(y, mesh) + 0, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(again, expected), step
    mesh.log = log


@contextmanager
def counted(steps: Any, *, idle: bool) -> Iterator[list[tuple[int, int]]]:
    """Note the elements of what goes into collectives and comes out of them."""
    import torch.distributed as dist

    counts: list[tuple[int, int]] = []

    def noting(call: Callable[..., Any], out_first: bool = True) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            counts.append((args[1].numel(), args[0].numel()) if out_first else (args[0].numel(), args[0].numel()))
            return None if idle else call(*args, **kwargs)

        return run

    kept = dist.all_to_all_single, dist.all_reduce, steps._gather, steps._scatter
    dist.all_to_all_single, dist.all_reduce = noting(kept[0]), noting(kept[1], out_first=False)
    steps._gather, steps._scatter = noting(kept[2]), noting(kept[3])
    try:
        yield counts
    finally:
        dist.all_to_all_single, dist.all_reduce, steps._gather, steps._scatter = kept


@contextmanager
def measured(made: list[int]) -> Iterator[None]:
    """Note the most bytes of tensors that are alive at once, of those made inside."""
    from torch.autograd import profiler

    with profiler.profile(profile_memory=True) as profile:
        yield
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    made.append(peak)
