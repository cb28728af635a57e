"""Prove a plan: run the code that it exports on ranks and compare it with the unsharded model.

The bundle runs at reduced sizes on processes of this machine, in float64. On every rank the loss and the gradient of
every parameter are held to ‖g − g₀‖ ≤ 1e-10 · max(‖g₀‖, 1e-6 · ‖all g₀‖), where g₀ comes from the same model exported
without sharding and run in one process (`reference`). The collectives that ran are compared with the planned ones.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import prod
from pathlib import Path

from ..collectives import COLLECTIVES
from ..compose import bundle, train
from ..core.assignment import TrainingGraph
from ..core.collective import Redistribution
from ..core.mesh import DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..errors import ProofError
from ..plan import Plan
from .job import Job, RankResult
from .ranks import Ranks
from .reference import unsharded
from .shrink import LARGEST_WORLD, shrink, uncovered

__all__ = ["TOLERANCE", "Proof", "ProofRow", "judge", "prove", "prove_bundle", "unsharded"]

TOLERANCE = 1e-10

Counts = Counter[tuple[str, tuple[str, ...], int, int]]
"""How often each collective ran: kind, axes, bytes in, bytes out."""

Progress = Callable[[float, str], None]
"""Told how far a proof is, from 0 to 1, and what it does now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRow:
    """The largest error of the loss or of one parameter over all ranks, and of a wrong one where to look.

    Parameters
    ----------
    node
        Name of the operator that is most likely at fault, as in `NodeView.name`; empty for a row that is right.
    edge
        Name of the value whose redistribution is most likely at fault, as in `EdgeView.value`; empty if none is.
    hint
        The edge with its readers, direction and collectives, in a sentence.
    """

    name: str
    error: float
    rank: int
    ok: bool
    node: str = ""
    edge: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a proof found.

    Parameters
    ----------
    rows
        Loss first, then every parameter.
    failures
        Errors that ranks raised, by rank.
    collectives
        Sentences on collectives that ran but were not planned or the other way round; empty if they are the same.
    uncovered
        What running at reduced sizes leaves open.
    """

    ok: bool
    mesh: DeviceMesh
    rows: tuple[ProofRow, ...]
    failures: tuple[str, ...]
    collectives: tuple[str, ...]
    uncovered: tuple[str, ...]


def _silent(done: float, message: str) -> None:
    """Tell nobody."""


def prove(
    plan: Plan, *, ranks: int = LARGEST_WORLD, seed: int = 0, kind: str = "gradients", steps: int = 20,
    progress: Progress = _silent, export: Callable[[Plan], Mapping[str, str]] = bundle,
) -> Proof:  # fmt: skip
    """Prove a plan on at most `ranks` processes.

    Parameters
    ----------
    kind
        `gradients` compares one step's loss and gradients; `training` compares losses and parameters of `steps` steps.
    progress
        Called with the share that is done and what comes next.
    export
        Plan → the files to prove; tests pass one that makes a mistake.

    Raises
    ------
    ProofError
        `proof.torch-missing`, `proof.mesh-too-large`, `proof.sizes`, `proof.timeout`.
    """
    _need_torch()
    progress(0.0, "shrinking")
    small = shrink(plan, ranks)
    progress(0.1, "exporting")
    files = export(small)
    progress(0.2, "starting ranks")
    with Ranks(small.decisions.mesh.device_count) as group, Ranks(1) as single:
        group.start()
        proof = prove_bundle(small, files, group, single, seed=seed, kind=kind, steps=steps, progress=progress)
    return replace(proof, uncovered=uncovered(plan, small))


def prove_bundle(
    plan: Plan, files: Mapping[str, str], group: Ranks, single: Ranks, *, seed: int = 0, kind: str = "gradients",
    steps: int = 1, progress: Progress = _silent,
) -> Proof:  # fmt: skip
    """Run a bundle of `plan`, at the plan's own sizes, on running ranks and compare it with the unsharded model."""
    with tempfile.TemporaryDirectory(prefix="shardwright-") as folder:
        root = Path(folder)
        _write(root / "sharded", files)
        _write(root / "whole", bundle(unsharded(plan)))
        job = Job(
            kind=kind, bundle=root / "whole", reference=root / "reference.pt", write_reference=True, steps=steps,
            seed=seed,
        )  # fmt: skip
        progress(0.3, "unsharded run")
        (answer,) = single.run(job)
        if isinstance(answer, str):
            raise ProofError("proof.reference", f"The unsharded model does not run: {answer}")
        progress(0.6, "sharded run")
        answers = group.run(replace(job, bundle=root / "sharded", write_reference=False))
    progress(0.9, "comparing")
    return judge(plan, answers, train(plan), updates=steps if kind == "training" else 0)


def judge(plan: Plan, answers: tuple[RankResult | str, ...], training: TrainingGraph, *, updates: int = 0) -> Proof:
    """Return the proof that the ranks' answers make.

    Parameters
    ----------
    training
        What `train` gives for the plan, to compare the collectives with.
    updates
        Number of optimizer steps that were run.
    """
    results = {rank: a for rank, a in enumerate(answers) if isinstance(a, RankResult)}
    failures = tuple(f"rank {rank}: {a}" for rank, a in enumerate(answers) if isinstance(a, str))
    rows = _rows(results)
    differences = () if failures else _differences(training, plan, results, updates)
    ok = bool(rows) and all(row.ok for row in rows) and not failures and not differences
    return Proof(ok=ok, mesh=plan.decisions.mesh, rows=rows, failures=failures, collectives=differences, uncovered=())


def planned(training: TrainingGraph, plan: Plan, rank: int, *, ran: Counts, updates: int = 0) -> Counts:
    """Return the collectives that a rank is to execute in float64, with what it passes in and gets out.

    What the plan has in float32, for more digits than a narrow type has, is passed as that or as float64.

    Parameters
    ----------
    ran
        What the rank executed, which tells these two apart.
    updates
        Number of optimizer steps; 0 for the gradients of one step without an update.
    """
    mesh = plan.decisions.mesh
    counts: Counts = Counter()
    narrow: Counts = Counter()

    def add(moved: Redistribution, dtype: str, times: int) -> None:
        for step in moved.steps:
            if not COLLECTIVES[step.kind].local:
                size = DTYPE_BYTES["float64" if dtype == "compute" else dtype]
                before, after = (size * prod(x.shape_of(step.shape, mesh, rank)) for x in (step.source, step.target))
                found = narrow if dtype == "float32" else counts
                found[step.kind, step.axes, before, after] += times

    for scope in training.scopes:
        once = scope.assembly.count * (updates or 1)
        for fanout in scope.fanouts:
            for delivery in (*fanout.forward, *fanout.again):
                add(delivery.redistribution, fanout.meta.dtype, once * plan.decisions.microbatches)
            times = once * (1 if fanout.deferred else plan.decisions.microbatches)
            for delivery in fanout.backward:
                add(delivery.redistribution, fanout.meta.dtype, times)
        for update in scope.updates if updates else ():
            add(update.gradient, "compute", once)
            add(update.values, "compute", once)
            add(update.master, "compute", scope.assembly.count)
    # The smallest first: what it leaves open is what the next may have been passed as.
    for key, count in sorted(narrow.items()):
        kind, axes, before, after = key
        kept = min(count, max(ran[key] - counts[key], 0))
        counts[key] += kept
        counts[kind, axes, 2 * before, 2 * after] += count - kept
    return +counts


def _differences(
    training: TrainingGraph, plan: Plan, results: Mapping[int, RankResult], updates: int
) -> tuple[str, ...]:
    found = []
    for rank, result in results.items():
        ran = Counter(result.collectives)
        expected = planned(training, plan, rank, ran=ran, updates=updates)
        for key in sorted((expected - ran) + (ran - expected)):
            kind, axes, size, out = key
            found.append(
                f"rank {rank}: {kind} over {'·'.join(axes)} of {size} → {out} bytes ran {ran[key]} times, "
                f"planned {expected[key]}"
            )
    return tuple(found)


def _rows(results: Mapping[int, RankResult]) -> tuple[ProofRow, ...]:
    worst: dict[str, tuple[float, int]] = {}
    for rank, result in results.items():
        for name, error in result.errors:
            # A NaN is the worst of errors; `not <` lets it win every comparison.
            if name not in worst or not error <= worst[name][0]:
                worst[name] = (error, rank)
    return tuple(
        ProofRow(name=name, error=error, rank=rank, ok=error <= TOLERANCE) for name, (error, rank) in worst.items()
    )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _need_torch() -> None:
    if find_spec("torch") is None:
        raise ProofError(
            "proof.torch-missing", "Proving runs the exported code, and PyTorch is not installed.",
            "Install it with: pip install 'shardwright[torch]'.",
        )  # fmt: skip
