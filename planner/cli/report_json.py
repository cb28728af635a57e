"""The answers for programs; their shapes are in `docs/reference/cli.md`."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from ..core.report import PipelineReport, Report
from ..errors import Diagnostic
from ..proof import Proof
from .facts import facts
from .plans import Request

UNITS = {
    "step_time.seconds": "s",
    "step_time.interval": "s",
    "memory.bytes": "B on the fullest device",
    "memory.capacity_bytes": "B",
    "host_memory.bytes": "B for one device, in the memory of the machine around it; null if nothing lies there",
    "flops": "FLOP a step, forward and backward, all devices",
    "mfu": "fraction of the devices' peak",
    "pipeline.stages[].times": "s and B of one microbatch; reduce and optimizer once a step",
    "pipeline.rank_memory_bytes": "B on a rank of the pipeline at its peak",
    "collectives[].payload_bytes": "B, the larger of input and output on a rank",
    "collectives[].wire_bytes": "B received by a rank",
    "collectives[].seconds": "s for one of them",
    "collectives[].count": "a step, layers and microbatches counted",
}


def report_json(asked: Request, report: Report) -> dict[str, Any]:
    """Return the answer of `evaluate`."""
    return {
        "model": asdict(facts(asked.plan.graph)),
        "plan": plan_json(asked),
        "step_time": {
            "seconds": report.step_time.value,
            "interval": list(report.interval),
            "parts": {child.name: child.value for child in report.step_time.children},
        },
        "mfu": report.mfu,
        "samples_per_second": report.samples_per_second,
        "tokens_per_second": report.tokens_per_second,
        "flops": report.flops,
        "memory": {
            "bytes": report.memory.value,
            "capacity_bytes": report.capacity_bytes,
            "parts": {child.name: child.value for child in report.memory.children},
        },
        "host_memory": None
        if report.host is None
        else {
            "bytes": report.host.value,
            "parts": {child.name: child.value for child in report.host.children},
        },
        "collectives": [asdict(row) for row in report.collectives],
        "diagnostics": diagnostics_json(report.diagnostics),
        "pipeline": None if report.pipeline is None else pipeline_json(report.pipeline),
        "costs": {"step_time": asdict(report.step_time), "memory": asdict(report.memory)},
        "units": UNITS,
    }


def pipeline_json(pipeline: PipelineReport) -> dict[str, Any]:
    """Return the stages with what a microbatch costs on each, and the bubble."""
    return {
        "schedule": pipeline.timeline.schedule.name,
        "stages": [
            {"ranks": list(stage.ranks), "runs": list(stage.items), "times": asdict(stage.times)}
            for stage in pipeline.stages
        ],
        "bubble": dict(pipeline.bubbles),
        "lower_bound": pipeline.bound,
        "rank_memory_bytes": list(pipeline.rank_memory),
        "note": pipeline.note,
    }


def plan_json(asked: Request) -> dict[str, Any]:
    """Return the decisions that are numbers or names, and which of them are defaults."""
    decisions = asked.plan.decisions
    return {
        "cluster": decisions.cluster,
        "devices": asked.plan.cluster.device_count,
        "mesh": [{"axis": axis, "size": size} for axis, size in decisions.mesh.axes],
        "global_batch": decisions.global_batch,
        "seq": decisions.seq or None,
        "microbatches": decisions.microbatches,
        "precision": decisions.precision,
        "pipeline": None if decisions.pipeline is None else asdict(decisions.pipeline),
        "assumed": sorted(asked.assumed),
    }


def proof_json(asked: Request, proof: Proof, diagnostics: tuple[Diagnostic, ...]) -> dict[str, Any]:
    """Return the answer of `prove`; an error that is no number is null."""
    rows = [{**asdict(row), "error": row.error if isfinite(row.error) else None} for row in proof.rows]
    return {
        "ok": proof.ok,
        "model": asdict(facts(asked.plan.graph)),
        "mesh": [{"axis": axis, "size": size} for axis, size in proof.mesh.axes],
        "rows": rows,
        "failures": list(proof.failures),
        "collectives": list(proof.collectives),
        "compared": proof.compared,
        "uncovered": list(proof.uncovered),
        "diagnostics": diagnostics_json(diagnostics),
    }


def diagnostics_json(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, Any]]:
    """Return findings as objects."""
    return [asdict(found) for found in diagnostics]
