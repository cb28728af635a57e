"""Programs from archives are those that a trace gives."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from planner.errors import ModelError
from planner.importers.aten.program import Program, Ref, reads
from planner.importers.pt2 import read_program
from planner.importers.tracing.trace import WithLoss, program_of
from tests.importers.pt2.archives import (
    IMAGES,
    TOKENS,
    Classifier,
    Decoder,
    classifier_archive,
    decoder_archive,
    exported,
    saved,
    with_graph,
)  # fmt: skip


def read(archive: bytes) -> Program:
    return read_program(io.BytesIO(archive), "model")


def _inner(path: str) -> str:
    return path.removeprefix("inner").removeprefix(".")


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    return tuple(_renamed(part, names) for part in value) if isinstance(value, tuple) else value


def unwrapped(program: Program, names: Mapping[str, str]) -> Program:
    """Return a program of `WithLoss` with the paths and inputs that a trace gives it."""
    calls = tuple(
        replace(
            call, arguments=_renamed(call.arguments, names), keywords=_renamed(call.keywords, names),
            stack=tuple((_inner(path), kind) for path, kind in call.stack),
        )
        for call in program.calls
    )  # fmt: skip
    return replace(
        program, calls=calls,
        inputs=tuple(replace(one, name=names.get(one.name, one.name)) for one in program.inputs),
        weights=tuple(replace(one, path=_inner(one.path)) for one in program.weights),
        buffers=tuple(replace(one, path=_inner(one.path)) for one in program.buffers),
        tied=tuple((_inner(a), _inner(b)) for a, b in program.tied),
        modules=tuple((_inner(path), kind) for path, kind in program.modules if path),
    )  # fmt: skip


def _loss(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = model(x)
    return logits.float().square().mean(), logits


@pytest.mark.parametrize(
    ("model", "example", "dims"),
    # A trace gives a region without gradients as a graph in the graph.
    [(Decoder(region=False), TOKENS, ("B", "S")), (Classifier(), IMAGES, ("B", "", "", "")),
     (Decoder(region=False).to(torch.bfloat16), TOKENS, ("B", "S"))],
    ids=["decoder", "classifier", "bfloat16"],
)  # fmt: skip
def test_the_program_is_that_of_the_trace(model: nn.Module, example: torch.Tensor, dims: tuple[str, ...]) -> None:
    module = WithLoss(model, _loss)
    shapes = {"inputs": ({i: Dim.DYNAMIC for i, symbol in enumerate(dims) if symbol},)}
    program = torch.export.export(module, (example,), dynamic_shapes=shapes, strict=False)
    traced = program_of(program, module, {"x": dims}, "model", values={})
    archived = unwrapped(read(saved(program)), {"inputs_0": "x"})
    made = tuple(call for call in traced.calls if call.results)
    assert archived.calls == made
    assert (archived.inputs, archived.weights, archived.buffers) == (traced.inputs, traced.weights, traced.buffers)
    assert (archived.outputs, archived.tied) == (traced.outputs, traced.tied)
    assert [path for path, _ in archived.modules] == [path for path, _ in traced.modules]
    ran = {member for call in made for member in call.stack}
    assert ran <= set(archived.modules)


def test_a_region_without_gradients_stands_in_its_place() -> None:
    program = read(decoder_archive())
    known = {value.name for value in (*program.inputs, *program.weights, *program.buffers)}
    for call in program.calls:
        assert set(reads(call)) <= known
        known |= {call.result(i) for i in range(len(call.results))}
    targets = [call.target for call in program.calls]
    # The gradient stops behind what the region makes of a buffer.
    assert targets.count("aten.detach.default") == 1
    assert targets.index("aten.arange.default") < targets.index("aten.detach.default")
    assert not any("higher_order" in target for target in targets)


def test_symbols_weights_and_buffers() -> None:
    program = read(decoder_archive())
    assert [str(one.meta) for one in program.inputs] == ["int64[B, S]"]
    assert program.tied == (("head.weight", "embed.weight"),)
    assert {one.path: one.values for one in program.buffers} == {
        "scales": (2.0, 3.0), "bias": tuple(i * 0.5 for i in range(8))
    }  # fmt: skip
    assert [one.path for one in program.weights if not one.trainable] == ["unused"]
    assert dict(program.modules) == {
        "": "Decoder", "embed": "Embedding", "layers": "ModuleList", "head": "Linear",
        **{f"layers.{i}": "Layer" for i in (0, 1)}, **{f"layers.{i}.norm": "LayerNorm" for i in (0, 1)},
        **{f"layers.{i}.{part}": "Linear" for i in (0, 1) for part in ("up", "down")},
    }  # fmt: skip
    fill = next(call for call in program.calls if call.target == "aten.masked_fill.Scalar")
    assert fill.arguments[2] == float("-inf")
    assert any((1 << 63) - 1 in call.arguments for call in program.calls)


def test_what_is_fixed_is_said() -> None:
    fixed = read(saved(exported(Decoder(), TOKENS)))
    assert fixed.fixed == ("The file fixes the batch: tokens is int64[2, 6].",)
    few = exported(Decoder(), TOKENS, dims=({0: Dim.DYNAMIC, 1: Dim("seq", min=2, max=64)},))
    assert read(saved(few)).fixed == ("The model takes S up to 64.",)
    assert read(classifier_archive()).fixed == ()


class Halves(nn.Module):
    """Sizes that are no polynomials."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : x.shape[1] // 2] * 2


class Chosen(nn.Module):
    """Two graphs, of which one runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x)


@pytest.mark.parametrize(
    ("module", "code", "words"),
    [
        (Halves(), "model.archive-size", "no polynomial"),
        (Chosen(), "model.archive-unsupported", "cond"),
        (Autocast(), "model.archive-unsupported", "autocast"),
    ],
)
def test_what_no_plan_holds_is_named(module: nn.Module, code: str, words: str) -> None:
    archive = saved(exported(module, torch.ones(2, 6), dims=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
                             if isinstance(module, Halves) else None))  # fmt: skip
    with pytest.raises(ModelError) as caught:
        read(archive)
    assert caught.value.code == code
    assert words in str(caught.value)


_GRAPH = "graph_module/graph"
_TENSOR = f"{_GRAPH}/tensor_values/embedding"
_OPEN = {"as_expr": {"expr_str": "__import__('os')"}}
_GRADIENT = {"gradient_to_parameter": {"arg": {"name": "x"}, "parameter_name": "y"}}
_OBJECT = {"as_custom_obj": {"name": "x", "class_fqn": "y"}}


def _put(graph: Any, path: str, value: Any) -> None:
    """Change one place of a graph; `embedding` among the nodes is the call of that operator, `+` adds to a list."""
    *way, last = path.split("/")
    at = graph
    for step in way:
        if isinstance(at, list):
            number = int(step) if step.isdigit() else next(i for i, node in enumerate(at) if step in node["target"])
            at = at[number]
        else:
            at = at[step]
    if last == "+":
        at.append(value)
    elif value is ...:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("schema_version/major", 9, "model.archive-version"),
        ("graph_module", ..., "model.archive-schema"),
        (f"{_GRAPH}/nodes/embedding/inputs/0/arg/as_tensor/name", "add", "model.archive-order"),
        (f"{_GRAPH}/nodes/embedding/inputs/0/arg", _OBJECT, "model.archive-unsupported"),
        (f"{_GRAPH}/nodes/embedding/target", "os.system('x')", "model.archive-schema"),
        (f"{_GRAPH}/nodes/linear/name", "embedding", "model.archive-order"),
        (f"{_GRAPH}/nodes/linear/outputs/0/as_tensor/name", "embedding", "model.archive-order"),
        (f"{_TENSOR}/sizes/2", {"as_int": -8}, "model.archive-size"),
        (f"{_TENSOR}/sizes/0", _OPEN, "model.archive-size"),
        (f"{_TENSOR}/dtype", 11, "model.archive-unsupported"),
        (f"{_TENSOR}/dtype", 99, "model.archive-schema"),
        ("graph_module/signature/output_specs/+", _GRADIENT, "model.archive-unsupported"),
        ("graph_module/signature/input_specs/0/parameter/parameter_name", "../../etc", "model.archive-schema"),
    ],
)
def test_changed_graphs(path: str, value: Any, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(with_graph(decoder_archive(), lambda graph: _put(graph, path, value)))
    assert caught.value.code == code
