"""Writes `train.py`: the settings of a run, and what the model's inputs are fed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.assignment import TrainingGraph
from ...core.graph import Feed, ModelGraph
from ...core.layout import Layout
from ...core.plan import Decisions, Precision
from ...core.summed import gradient_factor
from ...core.symbol import Polynomial, quotient, symbol
from ...core.tensor import TensorMeta
from ...errors import ExportError
from .fusion import fusion_imports, fusion_lines

BATCH = "B"
WIDTH = 120


def write_script(training: TrainingGraph, decisions: Decisions, precision: Precision, root_class: str) -> str:
    """Return `train.py`, which trains `root_class` on synthetic data.

    Raises
    ------
    ExportError
        `export.feeds` when the graph does not say what an input takes; `export.batch-cut` when an input can't be cut
        into microbatches along one dim.
    """
    assignment = training.assignment
    fields: Mapping[str, object] = {
        "mesh": dict(assignment.mesh.axes),
        "samples": decisions.global_batch,
        "microbatches": decisions.microbatches,
        "dtype": precision.compute,
        "regather": any(f.regather for scope in training.scopes for f in scope.fanouts),
    }
    body = "".join(f"    {name}={value!r},\n".replace("'", '"') for name, value in fields.items())
    if (times := gradient_factor(training, decisions)) > 1:
        body += f"    summed={times},\n"
    body += "".join(f"{line}\n" for line in fusion_lines(training, decisions.gradients))
    feeds = "".join(_call(fields) for fields in _feeds(training, decisions))
    imports = "".join(
        f"{line}\n" for line in sorted(["from parallel.data import Feed", *fusion_imports(decisions.gradients)])
    )
    return (
        f'"""Train {assignment.graph.name} by the plan in plan.json; launch.sh starts it."""\n\n'
        f"{imports}from parallel.trainer import Settings, main\n\n"
        f"from model import {root_class}\n\n"
        f"MODEL = {root_class}\n"
        f"SETTINGS = Settings(\n{body}    inputs=(\n{feeds}    ),\n)\n\n"
        'if __name__ == "__main__":\n    main(MODEL, SETTINGS)\n'
    )


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
    dims = [d for d, size in enumerate(meta.shape) if isinstance(size, Polynomial) and _has_batch(size)]
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


def _has_batch(size: Polynomial) -> bool:
    return any(BATCH in names for names, _ in size.terms)


def _call(fields: Mapping[str, object]) -> str:
    """Write a feed in one line, or in one line a field if it is long."""
    words = [f"{name}={value!r}".replace("'", '"') for name, value in fields.items()]
    line = f"        Feed({', '.join(words)}),\n"
    if len(line) <= WIDTH:
        return line
    return "        Feed(\n" + "".join(f"            {word},\n" for word in words) + "        ),\n"
