"""Change every resharding step of exported bundles, one at a time, and write `docs/reference/mutants.md`.

Runs as `python -m benchmarks.mutants [plan …]`, on threads in place of processes, for these plans or for all. What no
proof finds and no reason explains ends it with 1.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.compose import bundle, train
from planner.proof import Proof
from tests.proof import threads
from tests.proof.mutants import PLANS, UPDATED, equivalent
from tests.proof.sabotage import Sabotage, sabotages

PAGE = Path(__file__).parents[1] / "docs/reference/mutants.md"
HANG_S = 5.0
UPDATES = {"master", "reduce", "publish"}
HEAD = """# Changed bundles, and what finds them

`python -m benchmarks.mutants` writes this page. In exported bundles of a small decoder, every step of every resharding
is dropped, doubled, done over each other set of axes, and made to change places with the next other step; one change at
a time. Each changed bundle is proven. It is found by its numbers, by an error or because ranks wait for each other for
5 s, or only because other collectives ran than planned. The rest computes the same, and has a reason.

| plan | changes | by numbers | by an error or a hang | by the collectives alone | equivalent |
|---|---:|---:|---:|---:|---:|
"""
REASONS = """
Why a change leaves every number as it is, whether or not the collectives give it away:

| reason | changes |
|---|---:|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one change: how it was found, or that it was not, and why its numbers are right."""

    found: str
    reason: str


def outcome(proof: Proof, reason: str) -> Outcome:
    """Return what a proof says of a change."""
    if proof.failures:
        return Outcome(found="failed", reason="")
    if any(not row.ok for row in proof.rows):
        return Outcome(found="numbers", reason="")
    if not reason:
        reason = "not explained"
    return Outcome(found="equivalent" if proof.ok else "collectives", reason=reason)


def outcomes(name: str, prove: Callable[..., Proof]) -> Iterator[tuple[Sabotage, Outcome]]:
    """Yield every change of a plan's bundle with what became of it."""
    plan = (PLANS | UPDATED)[name]()
    files = bundle(plan)
    shapes = {f.value: f.shape for scope in train(plan).scopes for f in scope.fanouts}
    options = {"kind": "training", "steps": 2} if name in UPDATED else {}
    for change in sabotages(files["model.py"], plan.decisions.mesh.names):
        if name not in UPDATED or change.place.split()[-1] in UPDATES:
            proof = prove(plan, files | {"model.py": change.text}, **options)
            yield change, outcome(proof, equivalent(change, shapes))


def page(rows: dict[str, str], reasons: dict[str, Counter[str]]) -> str:
    """Return the page."""
    total = sum(reasons.values(), Counter())
    listed = "".join(f"| {reason} | {count} |\n" for reason, count in total.most_common())
    return HEAD + "".join(rows.values()) + REASONS + listed


def main(wanted: list[str]) -> int:
    """Change, prove, write the page after each plan, and return how many changes are not explained."""
    threads.TIMEOUT = HANG_S
    rows: dict[str, str] = {}
    reasons: dict[str, Counter[str]] = {}
    with threads.threads() as prove:
        for name in wanted or (*PLANS, *UPDATED):
            found: Counter[str] = Counter()
            reasons[name] = Counter()
            for change, became in outcomes(name, prove):
                found[became.found] += 1
                reasons[name][became.reason] += bool(became.reason)
                if became.reason == "not explained":
                    print(f"{name}: {change}", flush=True)
            counts = [found.total(), *(found[kind] for kind in ("numbers", "failed", "collectives", "equivalent"))]
            rows[name] = f"| {name.replace('_', ' ')} | {' | '.join(map(str, counts))} |\n"
            reasons[name] = +reasons[name]
            PAGE.write_text(page(rows, reasons), "utf-8")
    return sum(each["not explained"] for each in reasons.values())


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
