"""Time what has to be quick; prints a table and writes it to benchmarks/results.md.

A plan is changed and evaluated again while its user watches, so the warm time counts: what was worked out for other
plans of the session is there. Each case is timed on plans that are new each time, and the median is kept.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from time import perf_counter

import planner
from planner.compose import train, view
from planner.importers.zoo_models import zoo_text
from planner.plan import Plan

RESULTS = Path(__file__).with_name("results.md")
REPEATS = 15
MODEL = "llama-3.1-405b"
CLUSTER, MESH = "2048x8-h100-sxm", "dp:2048,tp:8"
TARGET_MS = 150.0
STAGES = {4: (4, 1, "1f1b", 60.0), 32: (16, 2, "interleaved-1f1b", TARGET_MS)}
"""Number of stages → ranks of the pipeline, stages of each, schedule, and the target."""
EDITED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; times in milliseconds."""

    what: str
    median: float
    least: float
    target: float | None = None

    def __str__(self) -> str:
        target = f"≤ {self.target:g}" if self.target else ""
        return f"| {self.what} | {self.median:.1f} | {self.least:.1f} | {target} |"


def large_plan(layers: int) -> Plan:
    """Return ZeRO-3 over 2048 × Megatron with sequence parallel over 8, on 16,384 devices."""
    config = json.loads(zoo_text(MODEL)) | {"num_hidden_layers": layers}
    plan = Plan.new(
        planner.load_model(json.dumps(config)), cluster=CLUSTER, mesh=MESH, global_batch=2048, seq=8192, microbatches=1
    )
    return plan.preset("zero3", axis="dp").preset("megatron", axis="tp").preset("sequence_parallel", axis="tp")


def staged_plan(stages: int) -> Plan:
    """Return the model cut into balanced stages, on 256 devices, with ZeRO-1 and Megatron over 8."""
    ranks, per_rank, schedule, _ = STAGES[stages]
    plan = Plan.new(
        planner.load_model(MODEL), cluster="32x8-h100-sxm", mesh={"pp": ranks, "dp": 32 // ranks, "tp": 8},
        global_batch=32 // ranks * 32, seq=8192, microbatches=32,
    )  # fmt: skip
    plan = plan.preset("zero1", axis="dp").preset("megatron", axis="tp")
    return plan.pipelined("pp", schedule, per_rank=per_rank)


def edits(plan: Plan) -> Iterator[Plan]:
    """Yield the plan with other operators sharded and whole, each time others."""
    return cycle([plan.shard(a, {"n": ()}).shard(b, {"n": ("tp",)}) for a, b in product(EDITED, EDITED)])


def timed(what: str, work: Callable[[], object], target: float | None = None) -> Row:
    """Return the median and the least time of some repeats after a first one that does not count."""
    work()
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        times.append((perf_counter() - start) * 1e3)
    return Row(what, statistics.median(times), min(times), target)


def measure() -> list[Row]:
    """Time everything."""
    rows = []
    for layers in (126, 504):
        plan = large_plan(layers)
        what = f"evaluate {MODEL}, {layers} layers, 16,384 devices"
        rows.append(timed(what, lambda p=plan: planner.evaluate(p), TARGET_MS))
    plan = large_plan(126)
    rows.append(timed("its collectives alone (train)", lambda: train(plan)))
    rows.append(timed("one decision more, and evaluate", lambda: planner.evaluate(plan.shard("gate_proj", {"n": ()}))))
    rows.append(timed("the plan from its config to evaluate", lambda: planner.evaluate(large_plan(126))))
    for stages, (*_, target) in STAGES.items():
        edited = edits(staged_plan(stages))
        what = f"an edit of {MODEL} in {stages} balanced stages: collectives, report and view"
        rows.append(timed(what, lambda e=edited: view(next(e)), target))
    return rows


def main() -> None:
    """Print the table and write it."""
    rows = measure()
    head = ["| what | median ms | least ms | target |", "|---|---:|---:|---:|"]
    table = "\n".join([*head, *map(str, rows)])
    where = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.machine()}"
    print(table)
    text = f"# Benchmarks\n\n`make bench` writes this page. {where}; warm, {REPEATS} repeats.\n\n{table}\n"
    RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
