"""What can't be exported says so before anything is written: `planner.exportable`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Plan, delivery
from planner.core.graph import ModelGraph
from planner.errors import ExportError, ModelError
from tests.tiny import inserted, tiny_graph, tiny_plan

CALL = {"arguments": "x0, 1.0", "results": "compute[B, S, 32]"}


def with_unknown(target: str) -> ModelGraph:
    return inserted(tiny_graph(), {"model.norm": ("model/put_in", "unknown", {"target": target, **CALL})})


def test_a_plan_that_can_be_exported() -> None:
    assert delivery.exportable(tiny_plan("dp:2", ("zero3", "dp"))) == ()
    # An operator that no rule knows is exported as it is, whole on every rank.
    assert delivery.exportable(tiny_plan("dp:2", graph=with_unknown("aten.add.Scalar"))) == ()


def test_an_onnx_source() -> None:
    graph = tiny_graph()
    plan = tiny_plan("dp:2", graph=replace(graph, source=replace(graph.source, kind="onnx")))
    (found,) = delivery.exportable(plan)
    assert found.code == "export.onnx-source"
    assert "ONNX" in found.message
    with pytest.raises(ExportError, match="ONNX"):
        delivery.bundle(plan)


def test_an_unknown_operator_with_side_effects() -> None:
    plan = tiny_plan("dp:2", graph=with_unknown("aten.add_.Scalar"))
    (found,) = delivery.exportable(plan)
    assert found.code == "export.side-effects"
    assert found.subject == "model/put_in"
    assert "aten.add_.Scalar" in found.message
    with pytest.raises(ExportError) as caught:
        delivery.bundle(plan)
    assert caught.value.diagnostic == found


def test_a_form_that_there_is_not() -> None:
    (found,) = delivery.exportable(tiny_plan("dp:2"), "poetry")
    assert found.code == "export.form-unknown"


def refusal(module: object, *inputs: object) -> str:
    from planner import load_model

    with pytest.raises(ModelError) as caught:
        Plan.new(load_model(module, inputs), cluster="1x2-h100-sxm", mesh="dp:2", global_batch=4)
    return f"{caught.value.code} {caught.value}"


def test_control_flow_that_depends_on_data_is_refused_where_the_model_is_read() -> None:
    torch = pytest.importorskip("torch")

    class Branching(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x):  # type: ignore[no-untyped-def]
            return (x if x.sum() > 0 else -x).mean()

    told = refusal(Branching(), torch.ones(4, 3))
    assert told.startswith("model.trace-data-dependent")
    assert "x.sum() > 0" in told


def test_random_operators_without_a_rule_are_refused_where_the_model_is_read() -> None:
    torch = pytest.importorskip("torch")

    class Noisy(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x):  # type: ignore[no-untyped-def]
            return (x + torch.poisson(x)).mean()

    told = refusal(Noisy(), torch.ones(4, 3))
    assert told.startswith("model.operator-unknown")
    assert "random" in told
