"""Prove a plan: run the code that it exports on ranks and compare it with the unsharded model.

The bundle runs at reduced sizes on processes of this machine, in float64. On every rank the loss and the gradient of
every parameter are held to ‖g − g₀‖ ≤ 1e-10 · max(‖g₀‖, 1e-6 · ‖all g₀‖), where g₀ comes from the same model exported
without sharding and run in one process (`reference`). The collectives that ran are compared with the planned ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ..compose import bundle, train
from ..core.assignment import TrainingGraph
from ..core.mesh import DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..errors import ProofError
from ..plan import Plan
from .collectives import Difference, differences_of
from .fault import likely, suspects
from .grouped import GROUPED, grouped_differences
from .job import Job, RankResult
from .ranks import Ranks
from .reference import summed_as, unsharded
from .shrink import LARGEST_WORLD, shrink, uncovered

__all__ = ["TOLERANCE", "Proof", "ProofRow", "judge", "prove", "prove_bundle", "unsharded"]

TOLERANCE = 1e-10
NATIVE = "parallelize.py"
"""File that a bundle in the native form has."""

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
    compared
        How many collectives ran, over all ranks.
    """

    ok: bool
    mesh: DeviceMesh
    rows: tuple[ProofRow, ...]
    failures: tuple[str, ...]
    collectives: tuple[str, ...]
    uncovered: tuple[str, ...]
    compared: int = 0


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
    return replace(proof, uncovered=(*proof.uncovered, *uncovered(plan, small)))


def prove_bundle(
    plan: Plan, files: Mapping[str, str], group: Ranks, single: Ranks, *, seed: int = 0, kind: str = "gradients",
    steps: int = 1, progress: Progress = _silent,
) -> Proof:  # fmt: skip
    """Run a bundle of `plan`, at the plan's own sizes, on running ranks and compare it with the unsharded model."""
    training = train(plan)
    with tempfile.TemporaryDirectory(prefix="shardwright-") as folder:
        root = Path(folder)
        _write(root / "sharded", files)
        _write(root / "whole", bundle(unsharded(plan)))
        job = Job(
            kind=kind, bundle=root / "whole", reference=root / "reference.pt", write_reference=True, steps=steps,
            seed=seed, summed=summed_as(plan, training),
        )  # fmt: skip
        progress(0.3, "unsharded run")
        (answer,) = single.run(job)
        if isinstance(answer, str):
            raise ProofError("proof.reference", f"The unsharded model does not run: {answer}")
        progress(0.6, "sharded run")
        answers = group.run(replace(job, bundle=root / "sharded", write_reference=False, summed=0))
    progress(0.9, "comparing")
    grouped = NATIVE in files
    return judge(plan, answers, training, updates=steps if kind == "training" else 0, grouped=grouped)


def judge(
    plan: Plan, answers: tuple[RankResult | str, ...], training: TrainingGraph, *, updates: int = 0,
    grouped: bool = False,
) -> Proof:  # fmt: skip
    """Return the proof that the ranks' answers make.

    Parameters
    ----------
    training
        What `train` gives for the plan, to compare the collectives with.
    updates
        Number of optimizer steps that were run.
    grouped
        Whether torch put collectives of parameters together, as in the native form.
    """
    results = {rank: a for rank, a in enumerate(answers) if isinstance(a, RankResult)}
    failures = tuple(f"rank {rank}: {a}" for rank, a in enumerate(answers) if isinstance(a, str))
    rows = _rows(results)
    compare = grouped_differences if grouped else differences_of
    differences = () if failures else compare(training, plan, results, updates)
    ok = bool(rows) and all(row.ok for row in rows) and not failures and not differences
    told = tuple(map(str, differences))
    rows = _explained(rows, training, differences)
    return Proof(
        ok=ok, mesh=plan.decisions.mesh, rows=rows, failures=failures, collectives=told,
        uncovered=(GROUPED,) if grouped else (),
        compared=0 if failures else sum(len(result.collectives) for result in results.values()),
    )  # fmt: skip


def _explained(
    rows: tuple[ProofRow, ...], training: TrainingGraph, differences: tuple[Difference, ...]
) -> tuple[ProofRow, ...]:
    """Return the rows, the wrong ones with where to look."""
    wrong = [row.name for row in rows if not row.ok]
    if not wrong:
        return rows
    rank = differences[0].rank if differences else 0
    here = [d for d in differences if d.rank == rank]
    # What was left out tells more than what ran in its place.
    telling = [d for d in here if d.ran < d.planned] or here
    unlike = {
        (kind, axes, before // size, after // size)
        for kind, axes, before, after in (d.key for d in telling)
        for size in (DTYPE_BYTES["float64"], DTYPE_BYTES["float32"])
    }
    found = suspects(training, rank)
    places = {name: likely(name, found, wrong, unlike) for name in wrong}
    return tuple(
        replace(row, node=place.node, edge=place.edge, hint=place.hint) if (place := places.get(row.name)) else row
        for row in rows
    )


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
