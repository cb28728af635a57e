"""Which output is trained, and what is taken of it."""

from __future__ import annotations

import pytest

from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.errors import ModelError
from planner.importers.aten.loss import give_loss
from planner.importers.aten.program import Call, Input, Program, Ref

B, S = symbol("B"), symbol("S")
LOGITS, CLASSES, IMAGE = TensorMeta((B, S, 9)), TensorMeta((B, 5)), TensorMeta((B, 3, 8, 8))
SCALAR, COUNT = TensorMeta((), "float32"), TensorMeta((), "int64")


def program(*outputs: TensorMeta) -> Program:
    x = Input(name="labels", meta=TensorMeta((B, S), "int64"))
    calls = tuple(
        Call(name=f"y{i}", target="mine.op.default", arguments=(Ref("labels"),), results=(meta,))
        for i, meta in enumerate(outputs)
    )
    return Program(
        name="model", inputs=(x,), weights=(), buffers=(), calls=calls, outputs=tuple(call.name for call in calls)
    )


def test_a_scalar_is_the_loss() -> None:
    given = give_loss(program(LOGITS, SCALAR, COUNT))
    assert given.outputs == ("y1", "y0", "y2")
    assert given.logits == "y0"
    assert given.calls == program(LOGITS, SCALAR, COUNT).calls


@pytest.mark.parametrize("meta", [LOGITS, CLASSES])
def test_cross_entropy_is_added(meta: TensorMeta) -> None:
    given = give_loss(program(meta, COUNT))
    assert given.inputs[-1] == Input(name="labels_2", meta=TensorMeta(meta.shape[:-1], "int64"))
    assert given.calls[-1].target == "fused.cross_entropy"
    assert given.calls[-1].arguments == (Ref("y0"), Ref("labels_2"))
    assert (given.outputs, given.logits) == (("loss",), "y0")


def test_a_chosen_output() -> None:
    several = program(LOGITS, CLASSES, IMAGE)
    assert give_loss(several, output="y1").calls[-1].arguments[0] == Ref("y1")
    assert give_loss(several, output="0").calls[-1].arguments[0] == Ref("y0")
    squares = give_loss(several, output="y2", loss="mse")
    assert squares.calls[-1].target == "aten.mse_loss.default"
    assert squares.inputs[-1] == Input(name="target", meta=IMAGE)


@pytest.mark.parametrize(
    ("outputs", "output", "loss", "code"),
    [
        ((), "", "", "model.loss-output"),
        ((COUNT,), "", "", "model.loss-output"),
        ((LOGITS, CLASSES), "", "", "model.loss-output"),
        ((SCALAR, SCALAR), "", "", "model.loss-output"),
        ((LOGITS,), "y7", "", "model.loss-output"),
        ((LOGITS,), "7", "", "model.loss-output"),
        ((IMAGE,), "", "", "model.loss-shape"),
        ((SCALAR, CLASSES), "0", "cross_entropy", "model.loss-shape"),
        ((LOGITS,), "", "hinge", "model.loss-unknown"),
    ],
)
def test_what_is_not_clear_is_asked(outputs: tuple[TensorMeta, ...], output: str, loss: str, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        give_loss(program(*outputs), output=output, loss=loss)
    assert caught.value.code == code
