"""The call of an unknown operator: what it may hold, and what it is written as."""

import pytest

pytest.importorskip("torch")

from planner.core.tensor import TensorMeta
from planner.errors import ModelError, RuleError
from planner.ops import OPS
from planner.ops.unknown import _call

from .cases import expression, meta, node

UNKNOWN = OPS["unknown"]
WIDE = {"target": "aten.addcmul.default", "arguments": "x1, x0, x2, value=-0.5", "results": "compute[4, 8]; bool[4]"}


def test_written_with_operands_in_their_places() -> None:
    one = node("unknown", meta(4, 8), meta(4, 8), meta(8), **WIDE)
    assert expression(one) == "torch.ops.aten.addcmul.default(x1, x0, x2, value=-0.5)"
    assert [value.meta for value in one.results] == [TensorMeta((4, 8)), TensorMeta((4,), "bool")]
    assert all(one.rule.role(factor) == "blocked" for factor in one.rule.factors)
    assert "aten.addcmul.default" in dict(one.rule.blocked)["x0_0"]


def test_names_of_operands_may_look_like_operands() -> None:
    """`x1` in place of the first operand is not replaced once more."""
    assert (
        _call({"target": "aten.sub.Tensor", "arguments": "x0, x1"}, ("x1", "x0")) == "torch.ops.aten.sub.Tensor(x1, x0)"
    )


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("os.system", "x0"),
        ("aten.add.Tensor(x0); exit", "x0"),
        ("aten.add.Tensor", "__import__('os').system('true')"),
        ("aten.add.Tensor", "x0.data"),
        ("aten.add.Tensor", "x1"),
        ("aten.add.Tensor", "[x0 for x0 in x0]"),
        ("aten.add.Tensor", "x0)(x0"),
        ("aten.add.Tensor", "x0,, 1"),
        ("aten.add.Tensor", "f"),
    ],
)
def test_anything_else_is_refused(target: str, arguments: str) -> None:
    attributes = {"target": target, "arguments": arguments, "results": "compute[4]"}
    with pytest.raises(RuleError) as caught:
        UNKNOWN.rule((TensorMeta((4,)),), (TensorMeta((4,)),), attributes)
    assert caught.value.code == "rule.unknown-call"


@pytest.mark.parametrize("text", ["compute[4", "float128[4]", "4, 8", "compute[4][8]", "compute[4 x]"])
def test_results_that_are_no_tensors_are_refused(text: str) -> None:
    with pytest.raises(ModelError):
        UNKNOWN.infer((), {"results": text})


@pytest.mark.parametrize("text", ["compute[B, 1 + 2·S, 8]", "int64[]", "bool[3]"])
def test_tensors_read_as_they_print(text: str) -> None:
    assert str(TensorMeta.parse(text)) == text
