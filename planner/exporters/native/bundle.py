"""The native form: the script that one would write by hand with `parallelize_module`, `fully_shard` and pipelining.

`model.py` is the model as one device would run it, `parallelize.py` spreads it over ranks, and where the plan has
stages, `pipeline.py` cuts them out of the model and runs them. A plan that these can't express is refused with the
decisions that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial

from ...core.assignment import Fanout, TrainingGraph
from ...core.cluster import ClusterSpec
from ...core.collective import Step
from ...core.evaluated import EvaluatedPlan
from ...core.graph import ModelGraph, Node
from ...core.plan import Decisions, Precision
from ...core.tensor import DTYPE_BYTES
from ..explicit.bundle import runtime_of
from ..explicit.launch import launch_files
from ..explicit.readme import TRIED
from ..explicit.script import step_text
from .model import write_model
from .modules import torch_modules
from .passing import SPLITTING
from .pieces import in_one_piece, pieces
from .problems import Problems
from .script import write_parallelize, write_train
from .sharding import Sharding, axes_of, find_sharding
from .spread import spread_of, spread_of_stages
from .stages import PIPELINE, write_stages
from .styles import find_styles
from .texts import Texts
from .whole import whole

UNDERSTOOD = frozenset({
    "cluster", "mesh", "global_batch", "seq", "microbatches", "precision", "factors", "kept", "parameters",
    "gradients", "pipeline",
})  # fmt: skip
"""Decisions that this form knows; any other one must be as it is by default."""


def export_native(plan: EvaluatedPlan) -> dict[str, str]:
    """Return the bundle of a plan as path → text; the same plan gives the same text.

    Raises
    ------
    ExportError
        `export.native-decisions` for a plan that parallelize_module, fully_shard and torch's pipelining do not express.
    """
    training, decisions, precision = plan.training, plan.decisions, plan.precision
    problems = Problems()
    _hold_decisions(training, decisions, precision, problems)
    loss = _loss(plan.graph, problems)
    problems.hold()
    assert loss is not None
    texts = Texts(
        training=training, named=in_one_piece(plan.graph, training.assignment.graph), problems=problems,
        low=DTYPE_BYTES[precision.compute] < DTYPE_BYTES["float32"],
    )  # fmt: skip
    modules = torch_modules(plan.graph)
    model = write_model(whole(plan.graph, training.assignment.symbols), modules, texts)
    cut = pieces(training, loss) if decisions.pipeline else ()
    stages = write_stages(plan, cut, model, texts, loss, problems) if cut else None
    axis = decisions.pipeline.axis if decisions.pipeline else None
    data, tensor = axes_of(training, axis, problems)
    problems.hold()
    sharding = find_sharding(training, data, tensor, problems)
    of = partial(find_styles, axis=tensor, data=data, problems=problems)
    if stages is None:
        styles = [of(training, modules, model.arguments, model.functions)]
        spread = spread_of(training, sharding, styles, modules)
    else:
        known = zip(cut, stages.classes.arguments, stages.classes.functions, strict=True)
        styles = [of(piece.planned.training, piece.modules, taken, functions) for piece, taken, functions in known]
        spread = spread_of_stages(cut, _kept(replace(sharding, pipeline=axis), plan.torch_schedule), styles)
    problems.hold()
    train = write_train(
        training, spread.sharding, decisions, precision, loss, model.root,
        vocab_sharded=any(found.loss_parallel for found in styles),
    )  # fmt: skip
    bundle = {
        "model.py": model.text,
        "parallelize.py": write_parallelize(training, spread, precision),
        **({PIPELINE: stages.text} if stages else {}),
        "train.py": train,
        "plan.json": plan.text,
        "README.md": _readme(training, decisions, plan.cluster, spread.sharding),
    }
    code = (model.text, train, stages.text if stages else "")
    return bundle | launch_files(plan.graph.name, plan.cluster) | runtime_of(code)


def _hold_decisions(training: TrainingGraph, decisions: Decisions, precision: Precision, problems: Problems) -> None:
    for field in fields(decisions):
        if field.name not in UNDERSTOOD and getattr(decisions, field.name) != field.default:
            problems.add(field.name, f"the plan decides on {field.name.replace('_', ' ')}, which this form does not "
                         "write yet")  # fmt: skip
    gradients = decisions.gradients
    if gradients.reduction != "mean" or gradients.compression != "none" or gradients.fusion not in {"none", "auto"}:
        problems.add("gradients", f"they are reduced as {gradients.reduction}, fused by {gradients.fusion} and passed "
                     f"as {gradients.compression}; fully_shard fuses those of a layer, beside backward")  # fmt: skip
    if precision.compute == "float16":
        problems.add("precision", f"{precision.name} computes in fp16, whose losses have to be scaled")
    if any(step.added_in for scope in training.scopes for f in scope.fanouts for step in _steps(f)):
        problems.add("precision", f"{precision.name} adds partial results in {precision.sums}; RowwiseParallel adds "
                     f"them in {precision.compute}")  # fmt: skip


def _steps(fanout: Fanout) -> Iterator[Step]:
    return (step for d in (*fanout.forward, *fanout.backward) for step in d.redistribution.steps)


def _kept(sharding: Sharding, schedule: str) -> Sharding:
    """Return the sharding of stages under a schedule, which may need gathered parameters to stay.

    Where torch computes the gradients of weights apart, it finds these among the parameters that the modules have at
    that time: shards there would lose their gradients, without an error.
    """
    if schedule not in SPLITTING or not sharding.reshard:
        return sharding
    note = f"Gathered parameters stay until the step ends: {schedule} would lose the gradients of dropped ones."
    return replace(sharding, reshard=False, notes=(*sharding.notes, note))


def _loss(graph: ModelGraph, problems: Problems) -> Node | None:
    """Return the operator that gives the loss, which this form takes apart in a sum and a count."""
    root = graph.root
    made = (n for n in root.nodes if root.outputs[0] in {value.name for value in n.results})
    loss = next(made, None)
    inputs = {value.name for value in root.inputs}
    if loss is None or loss.op != "cross_entropy" or loss.operands[1] not in inputs:
        problems.add(root.outputs[0], "the loss is no cross-entropy with an input as labels; this form counts the "
                     "targets of all ranks, and knows them for that loss only")  # fmt: skip
        return None
    return loss


def _readme(training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec, sharding: Sharding) -> str:
    graph = training.assignment.graph
    where = "parameters are gathered at their first use" if sharding.shard and not sharding.stored else ""
    notes = [*sharding.notes, *([f"The plan stores whole parameters; here {where}."] if where else [])]
    if sharding.pipeline and not sharding.deferred and decisions.microbatches > 1 and sharding.data:
        notes.append(f"Gradients are reduced over {'·'.join(sharding.data)} once a step, not after each microbatch.")
    listed = "".join(f"- {note}\n" for note in notes)
    return (
        f"# {graph.name} on {cluster.name}\n\n"
        f"Mesh `{decisions.mesh}`, {step_text(training, decisions)}. Needs PyTorch and nothing else; "
        f"run with torch {', '.join(TRIED)}.\n\n"
        "```bash\nlaunch/torchrun.sh --steps 20\n```\n\n"
        "- `model.py`: the model as one device would run it. It returns the sum of the losses, which the trainer\n"
        "  divides by the number of targets on all ranks.\n"
        "- `parallelize.py`: the mesh, the styles of `parallelize_module`, and `fully_shard`.\n"
        + "- `pipeline.py`: the stages, cut out of the model; what passes between them; the schedule that runs them.\n"
        * bool(sharding.pipeline)
        + "- `parallel/`: operators that torch has no module for, data, and the training loop.\n"
        "- `train.py`: AdamW and synthetic data; `--checkpoint` folders can be read by any number of ranks.\n"
        "- `plan.json`: the decisions that this was written from; open it with `shardwright evaluate plan.json`.\n"
        + (f"\nWhere it differs from the plan:\n\n{listed}" if notes else "")
    )
