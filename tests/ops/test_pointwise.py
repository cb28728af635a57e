"""Broadcasting of elementwise operators against torch, and what their terms depend on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
import torch

from planner.core.tensor import TensorMeta
from planner.errors import RuleError
from planner.ops import OPS
from planner.ops.pointwise import broadcast

SHAPES = st.lists(st.integers(1, 3), max_size=4).map(tuple)


@given(SHAPES, SHAPES)
def test_broadcasting_is_torchs(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = tuple(torch.broadcast_shapes(left, right))
    except RuntimeError:
        with pytest.raises(RuleError, match="can't be broadcast"):
            broadcast("add", (left, right))
        return
    operands = (TensorMeta(left), TensorMeta(right))
    results = OPS["add"].infer(operands, {})
    assert results[0].shape == expected
    rule = OPS["add"].rule(operands, results, {})
    for tensor, shape in zip(rule.operands, (left, right), strict=True):
        sizes = tuple(1 if not dim else rule.size(dim[0]) for dim in tensor)
        assert sizes == shape


@pytest.mark.parametrize(
    ("op", "attributes", "terms"),
    [
        ("masked_fill", {"value": 0.0}, ((0,),)),
        ("masked_fill", {"value": 1.0}, ()),
        ("pow", {"exponent": 1}, ((0,),)),
        ("pow", {"exponent": 2}, ()),
        ("shift", {"amount": 0.5}, ()),
        ("scale", {"factor": 0.5}, ((0,),)),
    ],
)
def test_terms_follow_the_attributes(op: str, attributes: dict[str, float], terms: object) -> None:
    x, mask = TensorMeta((4, 8)), TensorMeta((4, 8), "bool")
    operands = (x, mask)[: len(OPS[op].operands)]
    assert OPS[op].rule(operands, (x,), attributes).terms == terms


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("compute", "float32", "float32"), ("int64", "compute", "compute"), ("bool", "int32", "int32")],
)
def test_the_wider_type_wins(left: str, right: str, result: str) -> None:
    assert OPS["mul"].infer((TensorMeta((2,), left), TensorMeta((2,), right)), {})[0].dtype == result


def test_a_cast_to_another_kind_is_refused() -> None:
    with pytest.raises(RuleError, match=r"cast does not give 'int64'.*float64"):
        OPS["cast"].infer((TensorMeta((2,)),), {"dtype": "int64"})


def test_what_is_infinite_is_written_as_text() -> None:
    from .cases import expression, meta, node

    one = node("masked_fill", meta(4, 8), meta(4, 8, dtype="bool"), value=float("-inf"))
    assert expression(one) == 'x0.masked_fill(x1, float("-inf"))'
