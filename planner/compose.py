"""The whole path in one place: the stages as they meet. Read this first.

```text
file, config          ── importers ──────▸ ModelGraph
ModelGraph, pipeline  ── staging ────────▸ ModelGraph       cut into stages, if the plan has a pipeline
ModelGraph, decisions ── assign ─────────▸ Assignment       a strategy for every node
Assignment            ── redistribution ─▸ ShardedGraph     how every value gets to its readers
ShardedGraph          ── autodiff ───────▸ TrainingGraph    … and how every gradient comes back
TrainingGraph         ── cost ───────────▸ Report           time, memory, collectives, each number with its tree
  … with stages       ── cost, schedules ▸ Timeline, Report  of what each stage costs
Decisions             ◂─ document ───────▸ plan file
TrainingGraph         ── exporters ──────▸ bundle of files
```

After each stage `verify` holds the result to its invariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from .assign import assign, choices, covers
from .autodiff import differentiate, fill_buckets
from .collectives import COLLECTIVES
from .collectives.handover import leg_received
from .core.assignment import TrainingGraph
from .core.cluster import ClusterSpec
from .core.code import CodeMark
from .core.collective import Redistribution, Step
from .core.crossing import Crossing, Holding
from .core.evaluated import EvaluatedPlan
from .core.graph import Node
from .core.layout import Layout
from .core.mesh import Axes, DeviceMesh
from .core.pipeline_view import PipelineView
from .core.plan import StageDecision
from .core.report import Report
from .core.strategy import ShardStrategy
from .core.tensor import DTYPE_BYTES
from .core.view import Choice, PlanView
from .cost import (
    collective_rows,
    evaluate_pipeline,
    finding_of_batch,
    least_exchange_seconds,
    least_seconds,
    leg_seconds,
    model_flops,
    node_seconds,
    price_stages,
    step_seconds,
)
from .cost import evaluate as price_training
from .document import read, write
from .drawing import Moved, draw, node_choices
from .drawing import moved as moved_at
from .drawing import tensor_of as tensor_at
from .errors import Diagnostic, ExportError, PlannerError
from .exporters import EXPORTERS, ExporterDef
from .hardware import cluster as cluster_named
from .hardware import cluster_name
from .hardware import precision as precision_named
from .importers import load_model, load_source, shrink_way
from .importers import shrunk as shrunk_graph
from .pipelining import Same, decided_stages, pipeline_view, places_of, simulated, staged, with_boundary
from .plan import Plan
from .redistribution import (
    DEFAULT_OPTIONS,
    Account,
    Floor,
    Planner,
    SearchOptions,
    distribute,
    plan_crossing,
    plan_mindspore,
)
from .redistribution import account as account_of
from .schedules import SCHEDULES, write_csv
from .surfaces import DeviceLayout, read_layout
from .verify import verify_graph, verify_training

__all__ = [
    "PLANNERS", "account", "bundle", "choices_at", "code_marks", "cross", "evaluate", "evaluated", "export",
    "load_model", "load_source", "move_boundary", "moved", "open_plan", "pareto", "pipeline_of", "plan_text",
    "read_plan", "redistribute", "save_plan", "shrink_way", "shrunk_graph", "stages_of", "tensor_at", "train",
    "unexportable", "view",
]  # fmt: skip

PLANNERS = ("cheapest", "mindspore", "mindspore-alltoall")
"""Who plans a crossing."""


def train(plan: Plan) -> TrainingGraph:
    """Return every collective of a training step under the plan: stages 2, 3 and 4."""
    decisions = plan.decisions
    precision = precision_named(decisions.precision)
    meaning = {"compute": precision.compute, "gradient": precision.gradient}

    def plan_edge(source: Layout, target: Layout, shape: tuple[int, ...], dtype: str) -> Redistribution:
        element = DTYPE_BYTES[meaning.get(dtype, dtype)]
        wider = dtype == "compute" and DTYPE_BYTES[precision.sums] > element
        return _plan_edge(
            source, target, shape, element, decisions.mesh, decisions.cluster,
            added_in=precision.sums if wider else "",
        )  # fmt: skip

    graph = staged(plan, train)
    _hold_graph(Same(graph))
    assignment = assign(graph, decisions)
    sharded = distribute(assignment, plan_edge)
    training = differentiate(sharded, plan_edge)
    training = fill_buckets(training, decisions.gradients, DTYPE_BYTES[precision.gradient])
    _hold(verify_training(training))
    if decisions.pipeline and (finding := finding_of_batch(training, decisions)):
        raise PlannerError(finding.code, finding.message, finding.hint, subject=finding.subject)
    return training


def stages_of(plan: Plan) -> tuple[StageDecision, ...]:
    """Return what runs on which stage of the plan's pipeline: what it says, or what is balanced."""
    return decided_stages(plan, train)


def pipeline_of(plan: Plan) -> PipelineView | None:
    """Return the plan's pipeline for drawing; None without one."""
    return pipeline_view(plan, train)


def move_boundary(plan: Plan, stage: int, unit: int) -> Plan:
    """Return the plan with a stage that begins at another unit of `pipeline_of`."""
    return with_boundary(plan, stage, unit, train)


def evaluate(plan: Plan, training: TrainingGraph | None = None) -> Report:
    """Return step time, memory and collectives of the plan."""
    training = training or train(plan)
    if plan.decisions.pipeline is None:
        return price_training(training, plan.decisions, plan.cluster)
    stages = price_stages(training, plan.decisions, plan.cluster, places_of(plan))
    return evaluate_pipeline(training, plan.decisions, plan.cluster, stages, simulated(plan, stages))


def view(plan: Plan, training: TrainingGraph | None = None) -> tuple[PlanView, Report]:
    """Return the folded graph of the plan for drawing, and its report.

    Parameters
    ----------
    training
        What `train` gave for the plan, if it is at hand; likewise below.
    """
    training = training or train(plan)
    report = evaluate(plan, training)
    precision = precision_named(plan.decisions.precision)
    seconds = node_seconds(training, precision, plan.cluster)
    # A gradient's own collectives are drawn where it is, as if it shared them with none.
    alone = collective_rows(
        replace(training, buckets=()), plan.decisions.microbatches, precision, plan.cluster
    ) if training.buckets else report.collectives  # fmt: skip
    return draw(training, plan.decisions, precision, replace(report, collectives=alone), seconds, covers), report


def choices_at(plan: Plan, node: str, training: TrainingGraph | None = None) -> tuple[Choice, ...]:
    """Return what may be clicked at a node of the plan's view, by the node's id."""
    mesh = plan.decisions.mesh

    def at(n: Node, strategy: ShardStrategy, sizes: Mapping[str, int]) -> tuple[Choice, ...]:
        return choices(n.rule, strategy, sizes, mesh, n.name)

    return node_choices(training or train(plan), node, at)


def moved(plan: Plan, edge: str, badge: int, training: TrainingGraph | None = None) -> Moved:
    """Return the redistribution that a badge of the plan's view is a step of, by the edge's id and its position."""
    return moved_at(training or train(plan), precision_named(plan.decisions.precision), edge, badge)


def bundle(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> dict[str, str]:
    """Return the exported code as path → text.

    Raises
    ------
    ExportError
        `export.form-unknown`, `export.onnx-source`, `export.side-effects`, and what the exporter raises.
    """
    for found in unexportable(plan):
        raise ExportError(found.code, found.message, found.hint, subject=found.subject)
    return _form(form).export(evaluated(plan, training))


def unexportable(plan: Plan) -> tuple[Diagnostic, ...]:
    """Return what of a plan's model no code can be written for, in any form."""
    graph = plan.graph
    if graph.source.kind == "onnx":
        return (
            Diagnostic(
                code="export.onnx-source", subject=graph.name,
                message=f"{graph.name} comes from an ONNX file, whose operators are often not those of the model's "
                "code.",
                hint="Plan with it, and export code from the model's config.json, its .pt2 or its module.",
            ),
        )  # fmt: skip
    blocks = (graph.root, *(repeat.block for repeat in graph.root.repeats))
    calls = ((node, str(dict(node.attributes)["target"])) for b in blocks for node in b.nodes if node.op == "unknown")
    return tuple(
        Diagnostic(
            code="export.side-effects", subject=node.name,
            message=f"{node.name} is {target}, which no rule knows and which changes its input: other readers of that "
            "would see what it was or what it became.",
            hint="Write that part of the model with operators that give a new tensor.",
        )
        for node, target in calls
        # ATen's operators that change an operand have names that end so.
        if target.split(".")[1].endswith("_")
    )  # fmt: skip


def evaluated(plan: Plan, training: TrainingGraph | None = None) -> EvaluatedPlan:
    """Return what code is written from."""
    training, schedule = training or train(plan), None
    if plan.decisions.pipeline is not None:
        stages = price_stages(training, plan.decisions, plan.cluster, places_of(plan))
        schedule = simulated(plan, stages).timeline.schedule
    return EvaluatedPlan(
        training=training, decisions=plan.decisions, precision=precision_named(plan.decisions.precision),
        cluster=plan.cluster, flops=model_flops(training) * plan.decisions.microbatches, text=plan_text(plan),
        schedule=schedule, schedule_text=write_csv(schedule) if schedule else "",
        torch_schedule=SCHEDULES[schedule.name].torch if schedule and schedule.name in SCHEDULES else "",
    )  # fmt: skip


def code_marks(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> tuple[CodeMark, ...]:
    """Return which lines of the exported code stand for which nodes and edges of the plan's view."""
    return _form(form).marks(evaluated(plan, training))


def _form(name: str) -> ExporterDef:
    if name not in EXPORTERS:
        known = ", ".join(EXPORTERS)
        raise ExportError("export.form-unknown", f"There is no form {name!r} of exported code.", f"Use {known}.")
    return EXPORTERS[name]


def export(
    plan: Plan, folder: str | Path, form: str = "explicit", files: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Write the exported code, or other files of the plan, into a folder that is new or empty, and return them."""
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ExportError("export.folder-not-empty", f"{str(root)!r} is not an empty folder.", "Name a new folder.")
    written = []
    for name, text in (bundle(plan, form) if files is None else files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if path.suffix == ".sh":
            path.chmod(0o755)
        written.append(path)
    return tuple(written)


def plan_text(plan: Plan) -> str:
    """Return the plan file of a plan."""
    return write(plan.graph.source, plan.decisions)


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan file."""
    Path(path).write_text(plan_text(plan), "utf-8")


def open_plan(path: str | Path) -> Plan:
    """Read a plan file; the model comes from the content that the file carries."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlannerError(
            "document.unreadable", f"{str(path)!r} can't be read: {problem}.", "Name a plan file."
        ) from None
    return read_plan(text)


def read_plan(text: str) -> Plan:
    """Return the plan of the text of a plan file."""
    source, decisions = read(text)
    return Plan(graph=load_source(source), decisions=decisions)


def redistribute(
    source: Layout | str, target: Layout | str, mesh: DeviceMesh | str, *, shape: tuple[int, ...],
    dtype: str = "bfloat16", cluster: str | None = None, options: SearchOptions = DEFAULT_OPTIONS,
) -> Redistribution:  # fmt: skip
    """Return the best way from one layout to another.

    Parameters
    ----------
    source, target
        Layouts, or texts as `planner.surfaces` reads them: `[dp, tp]`, `Shard(0), Shard(1)`, `P('dp', 'tp')` ….
    shape
        Global shape of the tensor.
    cluster
        What the steps are priced on; by default `hardware.cluster_name` of as many H100 as the mesh has ranks.
    options
        What is best, and which collectives may be used; by default the fastest way.
    """
    mesh = DeviceMesh.parse(mesh) if isinstance(mesh, str) else mesh
    name = cluster or cluster_name(mesh.device_count)
    layouts = [read_layout(layout, mesh, shape) if isinstance(layout, str) else layout for layout in (source, target)]
    return _plan_edge(layouts[0], layouts[1], shape, _element_bytes(dtype), mesh, name, options)


def pareto(
    source: Layout, target: Layout, mesh: DeviceMesh, *, shape: tuple[int, ...], dtype: str, cluster: str,
    options: SearchOptions = DEFAULT_OPTIONS,
) -> tuple[Redistribution, ...]:  # fmt: skip
    """Return the ways of which no other is better in time, bytes, peak and number of steps, the fastest first."""
    return _planner(mesh, cluster, _element_bytes(dtype)).pareto(source, target, shape, options)


def account(moved: Redistribution, mesh: DeviceMesh, *, dtype: str, cluster: str) -> Account:
    """Return what a redistribution moves and takes, step by step with the reason for each, beside the lower bound."""
    size = _element_bytes(dtype)
    return account_of(moved, mesh, size, _planner(mesh, cluster, size).price)


def cross(
    source: Holding, target: Holding, *, dtype: str = "bfloat16", cluster: str | None = None,
    planner: str = "cheapest", options: SearchOptions = DEFAULT_OPTIONS,
) -> Crossing:  # fmt: skip
    """Return the way from one holding to another: to another mesh of the same ranks, through a reshape, or both.

    Parameters
    ----------
    source, target
        Mesh, shape and layout before and after; the ranks and the number of elements are the same.
    planner
        `cheapest`; or, to compare with it, what MindSpore does: `mindspore`, `mindspore-alltoall` with its all-to-all.
    options
        What is best, for the cheapest planner; MindSpore's knows no objectives.

    Raises
    ------
    PlannerError
        `redistribution.planner-unknown`; `mesh.matrix-ranks`, `reshape.elements`; in MindSpore's mode
        `mindspore.no-divisor-chain`, and `surface.partial-inexpressible` or `mindspore.map-divides` for what it lacks.
    """
    size = _element_bytes(dtype)
    if planner not in PLANNERS:
        raise PlannerError(
            "redistribution.planner-unknown", f"There is no planner {planner!r}.", f"Use {', '.join(PLANNERS)}."
        )
    if planner != "cheapest":
        for end in (source, target):
            DeviceLayout.of(end.layout, end.shape, end.mesh)
        found = plan_mindspore(source, target, all_to_all=planner == "mindspore-alltoall")
        if dtype == "bool" and any(leg.step and not COLLECTIVES[leg.kind].local for leg in found.legs):
            raise PlannerError(
                "mindspore.bool", "MindSpore's communication operators take no bool.", "Cast to int32 first."
            )
        return found
    name = cluster or cluster_name(source.mesh.device_count)
    machines = cluster_named(name)

    def plan(before: Layout, after: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Redistribution:
        return _plan_edge(before, after, shape, size, mesh, name, options)

    def cost(way: Crossing) -> tuple[float, float]:
        seconds = sum(leg_seconds(leg, size, machines) for leg in way.legs)
        match options.objective:
            case "bytes":
                return sum(map(leg_received, way.legs)), seconds
            case "peak":
                return way.peak_elements, seconds
            case "steps":
                return len(way.legs), seconds
            case _:
                return seconds, 0.0

    return plan_crossing(source, target, plan, cost, exchange=options.exchange)


def _element_bytes(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise PlannerError("tensor.dtype-unknown", f"{dtype!r} is no element type.", f"Use {', '.join(DTYPE_BYTES)}.")
    return DTYPE_BYTES[dtype]


@lru_cache(maxsize=65536)
def _plan_edge(
    source: Layout, target: Layout, shape: tuple[int, ...], element_bytes: int, mesh: DeviceMesh, cluster: str,
    options: SearchOptions = DEFAULT_OPTIONS, added_in: str = "",
) -> Redistribution:  # fmt: skip
    return _planner(mesh, cluster, element_bytes, added_in).plan(source, target, shape, options)


@lru_cache(maxsize=64)
def _planner(mesh: DeviceMesh, cluster: str, element_bytes: int, added_in: str = "") -> Planner:
    machines: ClusterSpec = cluster_named(cluster)
    setup, byte = least_seconds(machines)

    def price(step: Step) -> float:
        return step_seconds(step, element_bytes, mesh, machines)

    def exchange(axes: Axes) -> tuple[float, float]:
        least, each = least_exchange_seconds(axes, mesh, machines)
        return least, each * element_bytes

    return Planner(mesh, price, Floor(setup, byte * element_bytes, exchange), added_in)


@lru_cache(maxsize=64)
def _hold_graph(graph: Same) -> None:
    """Stop on a broken graph; one that holds is not looked at again for every edit."""
    _hold(verify_graph(graph.graph))


def _hold(findings: tuple[object, ...]) -> None:
    """Stop on a broken invariant: it is a fault of a stage or of an imported graph, not of the plan."""
    if findings:
        raise PlannerError("verify.broken", f"{len(findings)} invariants are broken; first: {findings[0]}")
