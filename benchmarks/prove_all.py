"""Prove every plan of `tests/proof/catalog.py` on gloo ranks, and write `docs/reference/proofs.md`.

Runs as `python -m benchmarks.prove_all [architecture …]`; with names, only their rows are written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import run
from time import perf_counter

from planner.compose import bundle
from planner.errors import ProofError
from planner.plan import Plan
from planner.proof import TOLERANCE, Proof, prove_bundle
from planner.proof.ranks import Ranks
from tests.proof.catalog import ARCHITECTURES, decisions, drawn, presets

PAGE = Path(__file__).parents[1] / "docs/reference/proofs.md"
HEAD = """# Plans that were proven

`make prove-all` writes this page: the exported bundle of each plan ran on that many processes joined by gloo, in
float64, and was compared with the unsharded model on every rank ([proof](../concepts/proof.md)). An error passes up to
{tolerance:g}. Every collective that ran, by kind, group and bytes, was compared with the planned ones.

{count} plans of {architectures} architectures, {wrong}; the largest error is {worst:.1e}.
{collectives:,} collectives ran, {different}.

Random plans are drawn by Hypothesis from fixed seeds: strategies of operators, kept partial sums, where parameters,
gradients and optimizer state lie, sizes that do not divide. Seconds are those of 2 shared cores, both runs together.
The tree is the commit whose code was proven, with a `+` where files were changed since.

| architecture | plan | mesh | ranks | parameters and loss | largest error | collectives | different | seconds | tree |
|---|---|---|---:|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One proof, as a line of the page."""

    architecture: str
    plan: str
    mesh: str
    ranks: int
    compared: int
    error: float
    collectives: int
    different: int
    seconds: float
    tree: str

    @property
    def ok(self) -> bool:
        """Whether numbers and collectives are as they should be."""
        return self.error <= TOLERANCE and not self.different

    def __str__(self) -> str:
        fields = (
            self.architecture, self.plan, self.mesh, self.ranks, self.compared, f"{self.error:.1e}", self.collectives,
            self.different, f"{self.seconds:.1f}", self.tree,
        )  # fmt: skip
        return f"| {' | '.join(map(str, fields))} |"

    @staticmethod
    def parse(line: str) -> Row:
        """Read what `str` prints."""
        architecture, plan, mesh, ranks, compared, error, collectives, different, seconds, tree = (
            word.strip() for word in line.strip().strip("|").split("|")
        )
        return Row(
            architecture=architecture, plan=plan, mesh=mesh, ranks=int(ranks), compared=int(compared),
            error=float(error), collectives=int(collectives), different=int(different), seconds=float(seconds),
            tree=tree,
        )  # fmt: skip


def rows_of(text: str) -> list[Row]:
    """Return the rows of the page."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [Row.parse(line) for line in lines[1:]]


def page(rows: list[Row]) -> str:
    """Return the page with these rows."""
    wrong, different = sum(not row.ok for row in rows), sum(row.different for row in rows)
    head = HEAD.format(
        tolerance=TOLERANCE, count=len(rows), architectures=len({row.architecture for row in rows}),
        wrong=f"{wrong} of them wrong" if wrong else "all equal to the unsharded model",
        worst=max((row.error for row in rows), default=0.0), collectives=sum(row.collectives for row in rows),
        different=f"{different} unlike the plan" if different else "all of them as planned",
    )  # fmt: skip
    return head + "\n".join(map(str, rows)) + "\n"


def plans(name: str) -> Iterator[tuple[str, Plan, Mapping[str, str]]]:
    """Yield what is said of each plan of an architecture, the plan and its bundle."""
    for title, plan in presets(name):
        yield title, plan, bundle(plan)
    for number, made in enumerate(drawn(name), 1):
        yield f"random {number}, {decisions(made.plan)} decisions", made.plan, made.files


def tree() -> str:
    """Return the commit that is checked out, with a `+` if files but the page differ from it."""

    def git(*arguments: str) -> str:
        return run(("git", *arguments), cwd=PAGE.parent, capture_output=True, text=True, check=True).stdout.strip()

    changed = [line for line in git("status", "--porcelain").splitlines() if not line.endswith(PAGE.name)]
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def row(name: str, title: str, plan: Plan, proof: Proof, seconds: float, proven: str) -> Row:
    """Return the row of a proof; one in which ranks failed has an infinite error."""
    mesh = plan.decisions.mesh
    worst = max((row.error if row.error == row.error else float("inf") for row in proof.rows), default=float("inf"))
    return Row(
        architecture=name, plan=title, mesh=str(mesh), ranks=mesh.device_count, compared=len(proof.rows),
        error=float("inf") if proof.failures else worst, collectives=proof.compared,
        different=len(proof.collectives), seconds=seconds, tree=proven,
    )  # fmt: skip


def _proof(plan: Plan, files: Mapping[str, str], ranks: Ranks, single: Ranks) -> Proof:
    """Return the proof of a bundle; one that could not be run counts as wrong."""
    try:
        return prove_bundle(plan, files, ranks, single)
    except ProofError as problem:
        return Proof(
            ok=False, mesh=plan.decisions.mesh, rows=(), failures=(str(problem),), collectives=(), uncovered=()
        )


def main(wanted: list[str]) -> int:
    """Prove, write the page after each architecture, and return how many plans are wrong."""
    found = {name: [] for name in ARCHITECTURES} if not wanted else _known()
    proven = tree()
    with ExitStack() as running:
        group = cache(lambda world: running.enter_context(Ranks(world)))
        for name in wanted or ARCHITECTURES:
            found[name] = []
            for title, plan, files in plans(name):
                start = perf_counter()
                proof = _proof(plan, files, group(plan.decisions.mesh.device_count), group(1))
                found[name].append(row(name, title, plan, proof, perf_counter() - start, proven))
                print(found[name][-1], flush=True)
                for failure in (*proof.failures, *proof.collectives[:3]):
                    print(f"    {failure}", flush=True)
            PAGE.write_text(page([row for rows in found.values() for row in rows]), "utf-8")
    return sum(not row.ok for rows in found.values() for row in rows)


def _known() -> dict[str, list[Row]]:
    """Return the rows of the page that is there, by architecture."""
    rows = rows_of(PAGE.read_text("utf-8")) if PAGE.exists() else []
    return {name: [row for row in rows if row.architecture == name] for name in ARCHITECTURES}


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
