"""The native form: the script that one would write by hand with `parallelize_module` and `fully_shard`.

`model.py` is the model as one device would run it, `parallelize.py` spreads it over ranks. A plan that these can't
express is refused with the decisions that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ...core.assignment import Fanout, TrainingGraph
from ...core.cluster import ClusterSpec
from ...core.collective import Step
from ...core.evaluated import EvaluatedPlan
from ...core.graph import Node
from ...core.plan import Decisions, Precision
from ...core.tensor import DTYPE_BYTES
from ..explicit.bundle import runtime_of
from ..explicit.launch import launch_files
from ..explicit.readme import TRIED
from ..explicit.script import step_text
from .model import write_model
from .modules import torch_modules
from .problems import Problems
from .script import write_parallelize, write_train
from .sharding import Sharding, axes_of, find_sharding
from .styles import find_styles
from .whole import whole

UNDERSTOOD = frozenset({
    "cluster", "mesh", "global_batch", "seq", "microbatches", "precision", "factors", "kept", "parameters",
    "gradients",
})  # fmt: skip
"""Decisions that this form knows; any other one must be as it is by default."""


def export_native(plan: EvaluatedPlan) -> dict[str, str]:
    """Return the bundle of a plan as path → text; the same plan gives the same text.

    Raises
    ------
    ExportError
        `export.native-decisions` for a plan that parallelize_module and fully_shard do not express.
    """
    training, decisions, precision = plan.training, plan.decisions, plan.precision
    problems = Problems()
    _hold_decisions(training, decisions, precision, problems)
    graph = training.assignment.graph
    loss = _loss(training, problems)
    problems.hold()
    assert loss is not None
    modules = torch_modules(graph)
    low = DTYPE_BYTES[precision.compute] < DTYPE_BYTES["float32"]
    model = write_model(training, whole(training), modules, problems, low=low)
    data, tensor = axes_of(training, problems)
    problems.hold()
    styles = find_styles(training, modules, model.arguments, model.functions, axis=tensor, data=data, problems=problems)
    sharding = find_sharding(training, data, tensor, problems)
    problems.hold()
    parallelize = write_parallelize(training, styles, sharding, modules, precision)
    train = write_train(training, styles, sharding, decisions, precision, loss, model.root)
    bundle = {
        "model.py": model.text,
        "parallelize.py": parallelize,
        "train.py": train,
        "plan.json": plan.text,
        "README.md": _readme(training, decisions, plan.cluster, sharding),
    }
    return bundle | launch_files(graph.name, plan.cluster) | runtime_of((model.text, train))


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


def _loss(training: TrainingGraph, problems: Problems) -> Node | None:
    """Return the operator that gives the loss, which this form takes apart in a sum and a count."""
    root = training.assignment.graph.root
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
    listed = "".join(f"- {note}\n" for note in notes)
    return (
        f"# {graph.name} on {cluster.name}\n\n"
        f"Mesh `{decisions.mesh}`, {step_text(training, decisions)}. Needs PyTorch and nothing else; "
        f"run with torch {', '.join(TRIED)}.\n\n"
        "```bash\nlaunch/torchrun.sh --steps 20\n```\n\n"
        "- `model.py`: the model as one device would run it. It returns the sum of the losses, which the trainer\n"
        "  divides by the number of targets on all ranks.\n"
        "- `parallelize.py`: the mesh, the styles of `parallelize_module`, and `fully_shard`.\n"
        "- `parallel/`: operators that torch has no module for, data, and the training loop.\n"
        "- `train.py`: AdamW and synthetic data; `--checkpoint` folders can be read by any number of ranks.\n"
        "- `plan.json`: the decisions that this was written from; open it with `shardwright evaluate plan.json`.\n"
        + (f"\nWhere it differs from the plan:\n\n{listed}" if notes else "")
    )
