"""An attribute that does not fit the operands is refused with its value, before a rule is made of it."""

import pytest

from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.errors import RuleError
from planner.ops import OPS


def meta(*shape: int, dtype: str = "compute") -> TensorMeta:
    return TensorMeta(shape, dtype)


X, INDEX = meta(4, 8), meta(4, 2, dtype="int64")
HEADS = meta(2, 4, 8, 4)
OPEN = TensorMeta((symbol("B"), 8))
MISFITS = [
    ("concat", (X, meta(5, 8)), {"dim": 1}, "differ in other dims than 1"),
    ("expand", (X,), {"sizes": "4, 9"}, "can't be expanded to"),
    ("expand", (X,), {"sizes": 4}, "no text"),
    ("gather", (X, meta(3, 2)), {"dim": 1}, "differs from"),
    ("index_add", (X, meta(2), meta(4, 3)), {"dim": 1}, "is not what"),
    ("index_select", (X, INDEX), {"dim": 1}, "has not one dim"),
    ("one_hot", (INDEX,), {"classes": 0}, "0 is no number"),
    ("pad", (X,), {"dim": 0, "before": -1}, "-1 before"),
    ("permute", (X,), {"dims": (0, 0)}, r"\(0, 0\) is no order"),
    ("repeat", (X,), {"times": (2,)}, "not 2 numbers"),
    ("repeat_interleave", (X,), {"dim": 0, "times": 0}, "0 is no number"),
    ("scatter", (X, INDEX, meta(4, 3)), {"dim": 1}, "shape of its index"),
    ("select", (X,), {"dim": 1, "index": 8}, "no index 8"),
    ("slice", (OPEN,), {"dim": 0, "stop": 2}, "open size B"),
    ("slice", (X,), {"dim": 1, "start": 5, "stop": 5}, "is empty"),
    ("slice", (X,), {"dim": 1, "step": -1}, "the step -1"),
    ("split", (X,), {"dim": 1, "sizes": (4, 5)}, r"\(4, 5\) do not make"),
    ("squeeze", (X,), {"dim": 1}, "not the size 1"),
    ("stack", (X, meta(4, 9)), {"dim": 0}, "not of one shape"),
    ("sum", (X,), {"dims": (0, -2)}, "are no dims"),
    ("sum", (X,), {"dims": "all"}, "no tuple of integers"),
    ("topk", (X,), {"dim": 1, "k": 9}, "no 9 largest"),
    ("topk", (X,), {"dim": 1, "k": 2.5}, "k is 2.5"),
    ("arange", (), {"sizes": 4}, "sizes 4"),
    ("einsum", (X, X), {"equation": "ij,jk"}, "is no equation"),
    ("einsum", (X, X), {"equation": "i.,jk->i"}, "something else than letters"),
    ("einsum", (X, X), {"equation": "ij->i"}, "for 1 operands"),
    ("einsum", (X, X), {"equation": "ii,jk->i"}, "diagonal"),
    ("einsum", (X, X), {"equation": "ij,jk->iz"}, "that no operand has"),
    ("einsum", (X, X), {"equation": "ijk,jk->i"}, "3 letters"),
    ("einsum", (X, X), {"equation": "ij,jk->ik"}, "stands for 8 and 4"),
    ("constant", (), {"sizes": "2, 2", "values": (1, 2, 3)}, "3 values do not make"),
    ("constant", (), {"sizes": "B, 2", "values": (1, 2)}, "2 values do not make"),
    ("causal_mask", (), {"sizes": "S, S", "window": 2, "chunk": 3}, "window, chunk at once"),
    ("causal_mask", (), {"sizes": "S, S", "reach": 2, "diagonal": 1}, "and a diagonal"),
    ("rotary_table", (), {"head_dim": 7, "theta": 1e4}, "a width of 7"),
    ("rotary_table", (), {"head_dim": 8, "theta": 1e4, "form": "once"}, "form 'once'"),
    ("rotary_table", (), {"head_dim": 8, "frequencies": (1.0, 0.5)}, "needs theta, or 4 frequencies"),
    ("rotary_table", (), {"head_dim": 4, "frequencies": (1.0, 0.5), "theta": 1e4}, "needs theta, or 2 frequencies"),
    ("window_attention", (HEADS, HEADS, HEADS), {"window": 2, "reach": 1}, "window=2, reach=1"),
    ("addmm", (meta(3), X, meta(8, 2)), {}, "can't be added"),
]


@pytest.mark.parametrize(("op", "operands", "attributes", "words"), MISFITS)
def test_misfits_are_refused(op: str, operands: tuple, attributes: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(RuleError, match=words) as caught:
        OPS[op].infer(operands, attributes)
    assert caught.value.code == "rule.attribute"


def test_masks_and_biases_are_told_apart() -> None:
    numbers, truth = meta(2, 4, 8, 8), meta(2, 4, 8, 8, dtype="bool")
    for op, fourth in (("full_attention", truth), ("masked_attention", numbers)):
        with pytest.raises(RuleError, match=f"{op} can't take") as caught:
            OPS[op].rule((HEADS, HEADS, HEADS, fourth), (HEADS,), {})
        assert caught.value.code == "rule.attention-bias"
