"""Options → plan: load or open, apply the edits in order, fill in what was left out and say so."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ..assign import sample_factors
from ..compose import load_model, open_plan, plan_text
from ..core.graph import ModelGraph
from ..core.mesh import DeviceMesh
from ..errors import PlannerError
from ..hardware import cluster_name
from ..plan import Plan
from ..presets import PRESETS
from . import syntax
from .door import write_text
from .options import PlanOptions
from .watching import watched

LONGEST_SEQ = 8192
_PLAN_FILE = re.compile(rb'"format"\s*:\s*"shardwright-plan"')
# As much of a file as a plan may have.
_LOOKED_AT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The plan that the options mean, and the names of the decisions that nobody made."""

    plan: Plan
    assumed: frozenset[str] = frozenset()


def request(options: PlanOptions) -> Request:
    """Return the plan that the options mean.

    Raises
    ------
    PlannerError
        Whatever is wrong with the model, the plan file or an option.
    """
    return _edited_file(options) if _is_plan(options.source) else _new(options)


def save(asked: Request, options: PlanOptions) -> None:
    """Write the plan file if the options say so; to be called once the plan has proved legal."""
    if options.save is None:
        return
    write_text(options.save, plan_text(asked.plan))


def _is_plan(source: str) -> bool:
    path = Path(source)
    try:
        with path.open("rb") as stream:
            return _PLAN_FILE.search(stream.read(_LOOKED_AT)) is not None
    except (OSError, ValueError):
        # Not a file: a model's name, or what load_model will complain about.
        return False


def _new(options: PlanOptions) -> Request:
    with watched() as watch:
        graph = load_model(options.source, watch=watch)
    mesh = _mesh(options)
    open_sizes = {name for name, symbol in (("global_batch", "B"), ("seq", "S")) if symbol in graph.symbols}
    assumed = {name for name in ("cluster", *open_sizes) if getattr(options, name) is None}
    microbatches = 1 if options.microbatches is None else options.microbatches
    plan = Plan.new(
        graph,
        cluster=options.cluster or cluster_name(mesh.device_count),
        mesh=mesh,
        # Until the data ranks are known, a batch that every count of parts divides.
        global_batch=_widest(graph, mesh, microbatches) if options.global_batch is None else options.global_batch,
        seq=_default_seq(graph) if options.seq is None else options.seq,
        microbatches=microbatches,
        precision=options.precision or "bf16",
    )
    plan = _edited(plan, options)
    if options.global_batch is None and "B" in graph.symbols:
        plan = replace(plan, decisions=replace(plan.decisions, global_batch=microbatches * _data_ranks(plan)))
    return Request(plan=plan, assumed=frozenset(assumed))


def _edited_file(options: PlanOptions) -> Request:
    plan = open_plan(options.source)
    names = ("cluster", "global_batch", "seq", "microbatches", "precision")
    changes: dict[str, object] = {name: value for name in names if (value := getattr(options, name)) is not None}
    assumed = set()
    if options.mesh is not None:
        mesh = changes["mesh"] = DeviceMesh.parse(options.mesh)
        if options.cluster is None and mesh.device_count != plan.cluster.device_count:
            changes["cluster"] = cluster_name(mesh.device_count, plan.cluster.device.name)
            assumed.add("cluster")
    decisions = replace(plan.decisions, **changes)  # type: ignore[arg-type]
    return Request(plan=_edited(replace(plan, decisions=decisions), options), assumed=frozenset(assumed))


def _edited(plan: Plan, options: PlanOptions) -> Plan:
    for text in options.preset or ():
        name, axes = syntax.preset(text)
        open_axes = PRESETS[name].axes if name in PRESETS else ("axis",)
        plan = plan.preset(name, **dict.fromkeys(open_axes, axes))
    for text in options.shard or ():
        wanted = syntax.shard(text)
        plan = plan.shard(wanted.target, wanted.factors, side=wanted.side)
    for text in options.store or ():
        where = syntax.store(text)
        plan = plan.store(
            where.target, of=where.of, axes=where.axes, layout=where.layout, regather=where.regather,
            deferred=where.deferred, place=where.place,
        )  # fmt: skip
    for text in options.keep or ():
        plan = plan.keep(*syntax.keep(text))
    for text in options.recompute or ():
        target, again = syntax.recompute(text)
        plan = plan.recompute(target, again=again)
    if options.gradients is not None:
        plan = replace(plan, decisions=replace(plan.decisions, gradients=syntax.gradients(options.gradients)))
    return _cut(plan, options)


def _cut(plan: Plan, options: PlanOptions) -> Plan:
    """Return the plan with the stages that the options ask for."""
    stages = dict(syntax.stage(text) for text in options.stage or ())
    if options.pipeline == "-":
        return plan.unpipelined()
    if options.pipeline is not None:
        axis, schedule, per_rank = syntax.pipeline(options.pipeline)
        return plan.pipelined(axis, schedule, per_rank=per_rank, stages=stages)
    decided = plan.decisions.pipeline
    if stages and decided is None:
        raise PlannerError(
            "cli.pipeline-missing", "--stage says what runs where, and there is no pipeline.",
            "Add an axis for it, e.g. --pipeline pp.",
        )  # fmt: skip
    return (
        plan.pipelined(decided.axis, decided.schedule, per_rank=decided.per_rank, stages=stages)
        if stages and decided
        else plan
    )


def _mesh(options: PlanOptions) -> DeviceMesh:
    if options.mesh is not None:
        return DeviceMesh.parse(options.mesh)
    if options.cluster is not None or options.preset:
        raise PlannerError(
            "cli.mesh-missing", "Nothing says how the devices are arranged.", "Add a mesh, e.g. --mesh dp:2,tp:4."
        )
    return DeviceMesh.of({"dp": 1})


def _widest(graph: ModelGraph, mesh: DeviceMesh, microbatches: int) -> int:
    return max(1, microbatches) * mesh.device_count if "B" in graph.symbols else 1


def _default_seq(graph: ModelGraph) -> int:
    if "S" not in graph.symbols:
        return 0
    longest = graph.longest_seq or json.loads(graph.source.content).get("max_position_embeddings")
    return min(LONGEST_SEQ, longest) if isinstance(longest, int) else LONGEST_SEQ


def _data_ranks(plan: Plan) -> int:
    """Return into how many parts the plan cuts a batch, so that each gets one sample."""
    mesh, names = plan.decisions.mesh, {"batch", *(factor for _, factor in sample_factors(plan.graph))}
    return max((mesh.size_of(d.axes) for d in plan.decisions.factors if d.factor in names), default=1)
