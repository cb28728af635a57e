"""Writes `train.py`: the settings of a run, and what the model's inputs are fed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.assignment import TrainingGraph
from ...core.evaluated import EvaluatedPlan
from ...core.graph import Feed, ModelGraph
from ...core.layout import Layout
from ...core.plan import Decisions
from ...core.summed import data_ranks
from ...core.symbol import quotient, symbol
from ...core.tensor import TensorMeta
from ...errors import ExportError
from .batch import BATCH, batch_multiple, has_batch
from .fusion import fusion_imports, fusion_lines
from .stages import torch_schedule

WIDTH = 120


def write_script(plan: EvaluatedPlan, classes: tuple[str, ...]) -> str:
    """Return `train.py`, which trains the whole model, or the stages of a pipeline.

    Parameters
    ----------
    classes
        Names of the classes of the model or its stages.

    Raises
    ------
    ExportError
        `export.feeds` when the graph does not say what an input takes; `export.batch-cut` when an input can't be cut
        into microbatches along one dim.
    """
    training, decisions, precision, cluster = plan.training, plan.decisions, plan.precision, plan.cluster
    assignment = training.assignment
    fields: dict[str, object] = {
        "mesh": dict(assignment.mesh.axes),
        "samples": decisions.global_batch,
        "microbatches": decisions.microbatches,
        "dtype": precision.compute,
        **({"gradient_dtype": precision.gradient} if precision.gradient != precision.compute else {}),
        "regather": any(f.regather for scope in training.scopes for f in scope.fanouts),
    }
    feeds = list(_feeds(training, decisions))
    # A schedule is a table for one number of microbatches.
    free = decisions.pipeline is None
    fields |= {
        "tokens": decisions.seq,
        "multiple": batch_multiple(training) if free and _all_cut(feeds, assignment.graph) else None,
        "flops": plan.flops,
        "device": cluster.device.name,
        "peak_flops": dict(cluster.device.peak_flops),
    }
    body = "".join(map(_field, fields.items()))
    if decisions.gradients.reduction == "sum":
        body += f"    summed={data_ranks(assignment)},\n"
    body += "".join(f"{line}\n" for line in fusion_lines(training, decisions.gradients))
    inputs = "".join(map(_call, feeds))
    return (
        f'"""Train {assignment.graph.name} by the plan in plan.json; the files in launch/ start it."""\n\n'
        f"{_imports(plan, classes)}\n\n"
        f"MODEL = {classes[0] if decisions.pipeline is None else 'by_table(PIPELINE)'}\n"
        f"SETTINGS = Settings(\n{body}    inputs=(\n{inputs}    ),\n)\n\n"
        f'if __name__ == "__main__":\n    main(MODEL, SETTINGS{_others(plan)})\n'
    )


def feed_lines(training: TrainingGraph, decisions: Decisions) -> str:
    """Return the lines that say what each input is fed with, one call of `Feed` each."""
    return "".join(_call(fields) for fields in _feeds(training, decisions))


def _imports(plan: EvaluatedPlan, classes: tuple[str, ...]) -> str:
    modules = {"parallel.command": "main", "parallel.data": "Feed", "parallel.settings": "Settings"}
    modules |= fusion_imports(plan.decisions.gradients)
    if plan.decisions.pipeline is None:
        modules["model"] = classes[0]
    else:
        modules |= {"parallel.pipeline": "by_table", "stages": "PIPELINE"}
    if torch_schedule(plan):
        modules["parallel.torch_pipeline"] = "by_torch"
    return "\n".join(f"from {module} import {name}" for module, name in sorted(modules.items()))


def _others(plan: EvaluatedPlan) -> str:
    """Return the arguments that say what else can run the stages."""
    found = torch_schedule(plan)
    return f', torch=by_torch(PIPELINE, "{found}")' if found else ""


def step_text(training: TrainingGraph, decisions: Decisions) -> str:
    """Return how much goes through the model in a step, for people."""
    count, seq = decisions.global_batch, decisions.seq
    has_seq = "S" in training.assignment.graph.symbols
    what = f"{count} sequence(s) of {seq} tokens" if has_seq else f"{count} sample(s)"
    return f"{what} a step in {decisions.microbatches} microbatch(es)"


def _feeds(training: TrainingGraph, decisions: Decisions) -> Iterator[dict[str, object]]:
    """Yield the fields of each input that differ from what a runtime `Feed` has by itself."""
    assignment = training.assignment
    layouts = {name: layout for name, _, layout in assignment.assemblies[0].inputs}
    symbols = dict(assignment.symbols) | {BATCH: decisions.global_batch}
    for feed, meta in _inputs(assignment.graph):
        fields = _fields(feed, meta, layouts[feed.name], frozenset(symbols.items()))
        samples = _samples(feed.name, meta, decisions.microbatches)
        yield fields | ({} if samples is None else {"samples": samples})


def _inputs(graph: ModelGraph) -> Iterator[tuple[Feed, TensorMeta]]:
    feeds = {feed.name: feed for feed in graph.feeds}
    for value in graph.root.inputs:
        if value.name not in feeds:
            raise ExportError(
                "export.feeds", f"{graph.name} does not say what its input {value.name} takes.",
                "Give it in the graph's feeds.", subject=value.name,
            )  # fmt: skip
        yield feeds[value.name], value.meta


def _fields(feed: Feed, meta: TensorMeta, layout: Layout, symbols: frozenset[tuple[str, int]]) -> dict[str, object]:
    fields: dict[str, object] = {
        "name": feed.name, "shape": meta.concrete(symbols), "dtype": meta.dtype, "layout": str(layout),
        "kind": feed.kind,
    }  # fmt: skip
    if feed.kind in {"integers", "uniform"}:
        fields |= {"low": feed.low} if feed.low else {}
        fields |= {"high": feed.high}
    if feed.next_of:
        fields["next_of"] = feed.next_of
    if feed.ignored is not None:
        fields["ignored"] = feed.ignored
    return fields


def _samples(name: str, meta: TensorMeta, microbatches: int) -> int | None:
    """Return the dim that microbatches cut; None if the input comes whole."""
    dims = [d for d, size in enumerate(meta.shape) if has_batch(size)]
    if not dims or (microbatches == 1 and not _cuts(meta, dims)):
        return None
    if not _cuts(meta, dims):
        raise ExportError(
            "export.batch-cut", f"Input {name}, {meta}, can't be cut into {microbatches} microbatches along one dim.",
            "Use one microbatch.", subject=name,
        )  # fmt: skip
    return dims[0]


def _cuts(meta: TensorMeta, dims: list[int]) -> bool:
    return len(dims) == 1 and quotient(meta.shape[dims[0]], symbol(BATCH)) is not None


def _all_cut(feeds: list[dict[str, object]], graph: ModelGraph) -> bool:
    """Return whether microbatches cut every input that depends on the number of samples."""
    uncut = {fields["name"] for fields in feeds if "samples" not in fields}
    return not any(has_batch(size) for value in graph.root.inputs if value.name in uncut for size in value.meta.shape)


def _field(item: tuple[str, object]) -> str:
    """Write a field of the settings, in one line a key if it is long."""
    name, value = item
    line = f"    {name}={value!r},\n".replace("'", '"')
    if len(line) <= WIDTH or not isinstance(value, dict):
        return line
    keys = "".join(f"        {key!r}: {each!r},\n" for key, each in value.items()).replace("'", '"')
    return f"    {name}={{\n{keys}    }},\n"


def _call(fields: Mapping[str, object]) -> str:
    """Write a feed in one line, or in one line a field if it is long."""
    words = [f"{name}={value!r}".replace("'", '"') for name, value in fields.items()]
    line = f"        Feed({', '.join(words)}),\n"
    if len(line) <= WIDTH:
        return line
    return "        Feed(\n" + "".join(f"            {word},\n" for word in words) + "        ),\n"
