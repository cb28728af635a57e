"""A graph with open sizes, at some batch and sequence, is what a fresh trace at these sizes gives."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from planner.core.graph import ModelGraph, ModelSource  # noqa: E402
from planner.core.json_text import digest  # noqa: E402
from planner.core.symbol import evaluate  # noqa: E402
from planner.importers.aten.build import build  # noqa: E402
from planner.importers.aten.program import Program  # noqa: E402
from planner.importers.tracing.buffers import to_meta  # noqa: E402
from planner.importers.tracing.hf import build_model  # noqa: E402
from planner.importers.tracing.trace import WithLoss, trace  # noqa: E402

from .test_hf import ROWS  # noqa: E402

SIZES = {"B": 3, "S": 24}
Node = tuple[str, tuple[tuple[int, ...], ...]]


def program_of(kind: str, values: dict[str, Any], sizes: dict[str, int], *, opened: bool) -> Program:
    model, head, _ = build_model({"model_type": kind, **values}, kind, torch.bfloat16)
    held = to_meta(model)
    inputs, dims = {}, {}
    for name, (shape, element) in head.inputs(model.config, type(model)).items():
        dtype = torch.bfloat16 if element.is_floating_point else element
        concrete = [sizes[n] if isinstance(n, str) else n for n in shape]
        inputs[name] = torch.zeros(concrete, dtype=dtype, device="meta")
        dims[name] = tuple(n if isinstance(n, str) and opened else "" for n in shape)
    return trace(WithLoss(model, head.run), inputs, dims, kind, values=held, compute=torch.bfloat16)


def graph_of(program: Program) -> ModelGraph:
    return build(program, ModelSource(name="x", kind="test", digest=digest("{}"), content="{}"), "x")


def nodes_of(graph: ModelGraph) -> list[Node]:
    """Return operator and concrete result shapes of all that depends on an input or a parameter, in order."""
    values = frozenset(SIZES.items())
    found: list[Node] = []
    for block in graph.blocks:
        # What is captured by a layer may be a table, which a fresh trace has as numbers.
        carried = next((repeat.results for repeat in graph.root.repeats if repeat.block is block), block.inputs)
        known = {value.name for value in block.inputs[: len(carried)]} | {p.name for p in block.parameters}
        for node in block.nodes:
            if known.isdisjoint(node.operands):
                continue
            known |= {value.name for value in node.results}
            shapes = tuple(tuple(evaluate(size, values) for size in value.meta.shape) for value in node.results)
            found.append((node.op, shapes))
    return found


@pytest.mark.parametrize(
    "kind", ["llama", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bert", "bart", "whisper"))]
)
def test_open_sizes_give_what_a_fresh_trace_gives(kind: str) -> None:
    values = ROWS[kind][0]
    opened = graph_of(program_of(kind, values, {"B": 2, "S": 16}, opened=True))
    fresh = graph_of(program_of(kind, values, SIZES, opened=False))
    assert opened.symbols == ("B", "S")
    assert fresh.symbols == ()
    assert nodes_of(opened) == nodes_of(fresh)
    assert opened.parameter_count == fresh.parameter_count
