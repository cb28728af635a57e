"""Ranks as threads of this process: exported code runs as it is, on a stand-in for `torch.distributed`.

A proof on processes sends files and waits for sockets; that takes longer than the computation. Here the runtime modules
are loaded once with `Distributed` as their `dist`, and a collective hands tensors from thread to thread. What a rank
computes, and how it is compared, is the same code as in a proof on processes.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from unittest import mock

import torch

from planner.compose import bundle, train
from planner.plan import Plan
from planner.proof import Proof, judge, unsharded
from planner.proof.job import Job, RankResult
from planner.proof.reference import summed_as
from planner.proof.worker import execute

TIMEOUT = 30.0
T = TypeVar("T")
here = threading.local()
"""`rank` and `world` of the calling thread."""


@dataclass(slots=True)
class Group:
    """Ranks that meet in collectives, in the order of their numbers.

    Attributes
    ----------
    rounds
        Round → what each member put in; a member takes part in one round after the other.
    channels
        (sender, reader) → messages.
    """

    ranks: tuple[int, ...]
    barrier: threading.Barrier = field(init=False)
    rounds: dict[int, list[Any]] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)
    channels: dict[tuple[int, int], Channel] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(len(self.ranks))

    def meet(self, kind: str, given: Any) -> list[Any]:
        """Put something in and return what all members put in, once all have."""
        place = self.place
        with self.lock:
            turn = self.turns[place] = self.turns.get(place, -1) + 1
            slots = self.rounds.setdefault(turn, [None] * len(self.ranks))
            slots[place] = (kind, given)
            # All have read a round before anyone enters the one after the next.
            self.rounds.pop(turn - 2, None)
        self.barrier.wait(TIMEOUT)
        kinds = {kind for kind, _ in slots}
        assert len(kinds) == 1, f"ranks {self.ranks} meet in different collectives: {kinds}"
        return [given for _, given in slots]

    @property
    def place(self) -> int:
        """Position of the calling thread's rank."""
        return self.ranks.index(here.rank)


@dataclass(slots=True)
class P2POp:
    """What `torch.distributed.P2POp` holds."""

    op: Any
    tensor: torch.Tensor
    peer: int
    group: Group


@dataclass(slots=True)
class Channel:
    """Messages from one rank to another: the first that is asked for is the first that is sent."""

    sent: list[torch.Tensor] = field(default_factory=list)
    asked: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def send(self, x: torch.Tensor) -> Later:
        with self.changed:
            self.sent.append(x.detach().clone())
            self.changed.notify_all()
        return Later(lambda: None)

    def ask(self, into: torch.Tensor) -> Later:
        number, self.asked = self.asked, self.asked + 1

        def receive() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.sent) > number, TIMEOUT), "a message does not come"
            into.copy_(self.sent[number])

        return Later(receive)


class Later:
    """What a collective that was only launched still has to do: until it is waited for, its result is not there."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.wait = do

    def is_completed(self) -> bool:
        return False


class Distributed(ModuleType):
    """What runtime modules use of `torch.distributed`, between threads."""

    ReduceOp = torch.distributed.ReduceOp
    ProcessGroup = Group
    P2POp = P2POp
    Work = Later

    def __init__(self) -> None:
        super().__init__("torch.distributed")
        self.groups: dict[tuple[int, ...], Group] = {}
        self.lock = threading.Lock()

    def is_initialized(self) -> bool:
        return True

    def get_rank(self) -> int:
        return int(here.rank)

    def get_world_size(self) -> int:
        return int(here.world)

    def new_subgroups_by_enumeration(
        self, ranks: Sequence[Sequence[int]], timeout: object = None
    ) -> tuple[Group | None, list[Group]]:
        with self.lock:
            found = [self.groups.setdefault(tuple(part), Group(tuple(part))) for part in ranks]
        return next((group for group in found if here.rank in group.ranks), None), found

    def destroy_process_group(self, group: Group | None = None) -> None:
        """Keep it: another plan's mesh may have the same groups."""

    def all_gather_into_tensor(
        self, out: torch.Tensor, x: torch.Tensor, group: Group, async_op: bool = False
    ) -> Later | None:
        parts = group.meet("all_gather", x.detach().clone())
        return done(lambda: out.view(-1).copy_(torch.cat([part.reshape(-1) for part in parts])), async_op)

    def reduce_scatter_tensor(
        self, out: torch.Tensor, x: torch.Tensor, op: Any = torch.distributed.ReduceOp.SUM,
        group: Group | None = None, async_op: bool = False,
    ) -> Later | None:  # fmt: skip
        assert group is not None
        size, place = out.numel(), group.place
        parts = group.meet("reduce_scatter", x.detach().clone())
        assert all(part.numel() == size * len(group.ranks) for part in parts)
        mine = torch.stack([part.view(-1)[place * size : (place + 1) * size] for part in parts])
        return done(lambda: out.view(-1).copy_(self._reduced(mine, op)), async_op)

    def _reduced(self, parts: torch.Tensor, op: Any) -> torch.Tensor:
        """Take one rank's numbers after the other, and round after each, as rings of NCCL and gloo do."""
        names = {self.ReduceOp.SUM: torch.add, self.ReduceOp.MAX: torch.maximum, self.ReduceOp.MIN: torch.minimum}
        return reduce(names[op], parts)

    def all_reduce(
        self, x: torch.Tensor, op: Any = torch.distributed.ReduceOp.SUM, group: Group | None = None,
        async_op: bool = False,
    ) -> Later | None:  # fmt: skip
        assert group is not None
        parts = torch.stack(group.meet("all_reduce", x.detach().clone()))
        return done(lambda: x.copy_(self._reduced(parts, op)), async_op)

    def broadcast(self, x: torch.Tensor, src: int, group: Group) -> None:
        x.copy_(group.meet("broadcast", x.detach().clone())[group.ranks.index(src)])

    def isend(self) -> None:
        """Only named, in a `P2POp`."""

    def irecv(self) -> None:
        """Only named, in a `P2POp`."""

    def batch_isend_irecv(self, operations: Sequence[P2POp]) -> list[Later]:
        return [
            self._channel(here.rank, op.peer, op.group).send(op.tensor)
            if op.op == self.isend
            else self._channel(op.peer, here.rank, op.group).ask(op.tensor)
            for op in operations
        ]

    def _channel(self, sender: int, reader: int, group: Group) -> Channel:
        assert {sender, reader} == set(group.ranks)
        with group.lock:
            return group.channels.setdefault((sender, reader), Channel())

    def all_to_all_single(
        self, out: torch.Tensor, x: torch.Tensor, output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None, group: Group | None = None, async_op: bool = False,
    ) -> Later | None:  # fmt: skip
        assert group is not None
        n, place = len(group.ranks), group.place
        sent = x.detach().clone().split(list(input_split_sizes or [x.shape[0] // n] * n))
        pieces = [parts[place] for parts in group.meet("all_to_all", sent)]
        wanted = list(output_split_sizes or [out.shape[0] // n] * n)
        assert [piece.shape[0] for piece in pieces] == wanted, "what is sent is not what is expected"
        return done(lambda: out.copy_(torch.cat(pieces)), async_op)


def done(do: Callable[[], object], later: bool) -> Later | None:
    """Do what is left of a collective, or return it."""
    if later:
        return Later(do)
    do()
    return None


DISTRIBUTED = Distributed()


@cache
def runtime() -> Mapping[str, ModuleType]:
    """Load the runtime modules, with threads as ranks, under the names that bundles import."""
    made: dict[str, ModuleType] = {}
    sources = {
        path.name.removesuffix(".py"): path.read_text("utf-8")
        for path in files("planner.exporters.runtime").iterdir()
        if path.name.endswith(".py")
    }
    made["parallel"] = ModuleType("parallel")
    made["parallel"].__path__ = []
    patched = {"torch.distributed": DISTRIBUTED}
    with mock.patch.dict(sys.modules, made | patched), mock.patch.object(torch, "distributed", DISTRIBUTED):
        before = -1
        # What needs more of torch.distributed than threads have, such as checkpoints, is left out.
        while before < len(made):
            before = len(made)
            for name, text in sources.items():
                if name == "__init__" or f"parallel.{name}" in made:
                    continue
                module = ModuleType(f"parallel.{name}")
                module.__package__ = "parallel"
                sys.modules[module.__name__] = module
                try:
                    exec(compile(text, f"parallel/{name}.py", "exec"), vars(module))
                except ImportError:
                    # One that it imports comes later.
                    del sys.modules[module.__name__]
                    continue
                made[module.__name__] = module
    # An optimizer loads modules when it is first used, and can't do so in several threads at once.
    one = torch.nn.Parameter(torch.ones(1))
    one.grad = torch.ones(1)
    torch.optim.AdamW([one]).step()
    return made


@contextmanager
def _imported(texts: Mapping[str, str]) -> Iterator[ModuleType]:
    """Give a bundle's `train` module; what it imports can be imported meanwhile."""
    with mock.patch.dict(sys.modules, dict(runtime())), tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            # Tables that a module reads beside itself.
            if name.endswith(".csv"):
                (Path(folder) / name).write_text(text, "utf-8")
        for name in ("model", "stages", "train"):
            if f"{name}.py" in texts:
                module = sys.modules[name] = ModuleType(name)
                module.__file__ = str(Path(folder) / f"{name}.py")
                exec(compile(texts[f"{name}.py"], f"{name}.py", "exec"), vars(module))
        yield sys.modules["train"]


@dataclass(slots=True)
class Threads:
    """Proves bundles with threads as ranks; references are kept."""

    folder: Path
    references: dict[object, Path] = field(default_factory=dict)

    def prove(
        self,
        plan: Plan,
        texts: Mapping[str, str] | None = None,
        *,
        seed: int = 0,
        kind: str = "gradients",
        steps: int = 1,
    ) -> Proof:
        """Return the proof of a plan at its own sizes, or of other files in place of its bundle."""
        whole = unsharded(plan)
        training = train(plan)
        summed = summed_as(plan, training)
        key = (whole, seed, kind, steps, summed)
        job = Job(
            kind=kind, steps=steps, bundle=self.folder, reference=self.folder / f"{len(self.references)}.pt",
            write_reference=True, seed=seed, summed=summed,
        )  # fmt: skip
        if key not in self.references:
            (answer,) = each_rank(bundle(whole), 1, partial(execute, job=job))
            assert isinstance(answer, RankResult), answer
            self.references[key] = job.reference
        job = replace(job, reference=self.references[key], write_reference=False, summed=0)
        answers = each_rank(texts or bundle(plan), plan.decisions.mesh.device_count, partial(execute, job=job))
        return judge(plan, answers, training, updates=steps if kind == "training" else 0)


def each_rank(texts: Mapping[str, str], world: int, work: Callable[[ModuleType], T]) -> tuple[T | str, ...]:
    """Return what `work` makes of a bundle's `train` module on each of `world` threads, or the error's text."""
    DISTRIBUTED.groups.clear()

    def rank(number: int) -> T | str:
        here.rank, here.world = number, world
        try:
            return work(train_module)
        except Exception as problem:
            for group in DISTRIBUTED.groups.values():
                group.barrier.abort()
            return f"{type(problem).__name__}: {problem}"

    with _imported(texts) as train_module, _one_thread_each(), ThreadPoolExecutor(world) as pool:
        return tuple(pool.map(rank, range(world)))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    count, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_num_threads(count)
        torch.set_default_dtype(dtype)


@contextmanager
def threads() -> Iterator[Callable[..., Proof]]:
    """Give a function that proves plans on threads."""
    with tempfile.TemporaryDirectory(prefix="shardwright-") as folder:
        yield Threads(Path(folder)).prove
