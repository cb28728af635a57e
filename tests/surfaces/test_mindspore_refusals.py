"""Illegal strategies and layouts, each with its whole message: MindSpore's checks 1 to 5, 7 and 8 in their order."""

import pytest

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.rule import ShardingRule
from planner.errors import LayoutError
from planner.surfaces import DeviceLayout, alias_layout, device_layout, read_counts

from .mindspore import conv2d, elementwise, matmul, placed

PRODUCT = matmul((2, 4, 8, 16), (2, 4, 16, 32))
OK = (2, 4, 16, 1)

STRATEGIES = [
    (PRODUCT, (), "strategy-missing", "op: the strategy () has no tuples. Give one tuple an input, 2 in all."),
    (PRODUCT, None, "strategy-missing", "op: the strategy None has no tuples. Give one tuple an input, 2 in all."),
    (PRODUCT, (OK,), "input-count",
     "op: the strategy has 1 tuples, the operator 2 inputs. Give one tuple an input: x, w."),
    (PRODUCT, ((2, 4, 8, 16), (2, 4, 16)), "tuple-length",
     "op: the tuple of w has length 3, the tensor has 4 dims. Give one count a dim."),
    (PRODUCT, ((2, 4, 8, 16), 4), "tuple-length",
     "op: the tuple of w is 4, not a tuple, the tensor has 4 dims. Give one count a dim."),
    (PRODUCT, ((2, 4, 8, 16), (2, 4, 0, 1)), "count-value",
     "op: the count of dim 2 of w is 0. Give a whole number of at least 1; 1 keeps the dim whole."),
    (PRODUCT, ((2, 4, 8, 16), (2, 4, -1, 1)), "count-value",
     "op: the count of dim 2 of w is -1. Give a whole number of at least 1; 1 keeps the dim whole."),
    (PRODUCT, ((2, 4, 8, True), OK), "count-value",
     "op: the count of dim 3 of x is True. Give a whole number of at least 1; 1 keeps the dim whole."),
    (PRODUCT, ((2, 4, 8, 16), (2, 3, 16, 1)), "count-divides",
     "op: dim 1 of w has size 4, which 3 does not divide (4 % 3 = 1). Use a count that divides 4."),
    (PRODUCT, ((4, 4, 8, 16), OK), "count-divides",
     "op: dim 0 of x has size 2, which 4 does not divide (2 % 4 = 2). Use a count that divides 2."),
    (PRODUCT, ((2, 4, 8, 16), (2, 2, 16, 1)), "counts-disagree",
     "op: factor b1 is cut into 4 by dim 1 of x and into 2 by dim 1 of w. Give both the same count."),
    (PRODUCT, ((2, 4, 8, 16), (2, 4, 8, 1)), "counts-disagree",
     "op: factor k is cut into 16 by dim 3 of x and into 8 by dim 2 of w. Give both the same count."),
    (PRODUCT, ((2, 4, 8, 8), (2, 4, 8, 4)), "device-count",
     "op: the strategy needs 2048 devices, which do not divide the 1024 there are (1024 % 2048 = 1024). "
     "Use counts whose product divides 1024."),
    (PRODUCT, ((2, 4, 8, 16), (2, 4, 16, 32)), "device-count",
     "op: the tuple (2, 4, 16, 32) of w needs 4096 devices, which do not divide the 1024 there are "
     "(1024 % 4096 = 1024). Use counts whose product divides 1024."),
    (elementwise((6, 4)), ((6, 1),), "device-count",
     "op: the tuple (6, 1) of input 0 needs 6 devices, which do not divide the 1024 there are (1024 % 6 = 4). "
     "Use counts whose product divides 1024."),
    (elementwise((8, 1), (8, 8)), ((2, 4), (2, 4)), "count-divides",
     "op: dim 1 of input 0 has size 1, which 4 does not divide (1 % 4 = 1). Use a count that divides 1."),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "counts", "code", "said"), STRATEGIES)
def test_strategies(rule, counts, code: str, said: str) -> None:
    names = ("x", "w") if rule is PRODUCT else ()
    with pytest.raises(LayoutError) as caught:
        placed(rule, counts, 1024, names=names)
    assert (caught.value.code, str(caught.value)) == (f"mindspore.{code}", said)
    assert caught.value.diagnostic.subject == "op"


def test_what_is_blocked_is_refused_last() -> None:
    with pytest.raises(LayoutError) as caught:
        placed(conv2d((8, 8, 8, 8), (8, 8, 4, 4)), ((1, 1, 1, 1), (1, 1, 2, 1)), 8)
    assert (caught.value.code, str(caught.value)) == (
        "rule.factor-blocked",
        "op: factor kh may not be sharded: the window is not cut; the strategy cuts it into 2. "
        "Give the dims of kh a count of 1.",
    )


def test_merged_dims_are_cut_from_the_major_factor() -> None:
    rule = ShardingRule.parse("(g r) -> g r", shapes=((24,), (6, 4)))
    assert placed(rule, ((12,),), 12).outputs[0].counts == (6, 2)
    assert placed(rule, ((3,),), 12).outputs[0].counts == (3, 1)
    with pytest.raises(LayoutError) as caught:
        placed(rule, ((8,),), 8)
    assert (caught.value.code, str(caught.value)) == (
        "mindspore.count-uneven",
        "op: dim 0 of input 0 is made of (g r); 8 parts would cut g, of size 6, unevenly. "
        "Use a count that divides 6 or is a multiple of it.",
    )


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (((2, 3, 0), (2,)), "tuple-length"),
        (((2, 3, 0, 1), (2,)), "count-divides"),
        (((2, 4, 0, 3), (2,)), "count-value"),
        (((2, 4, 1, 1), (1, 2, 3, 1)), "count-divides"),
        (((2, 4, 8, 16), (1, 1, 16, 32)), "counts-disagree"),
        (((2, 4, 8, 16), (1, 2, 16, 32)), "counts-disagree"),
    ],
)
def test_the_first_check_that_fails_is_told(wrong, code: str) -> None:
    with pytest.raises(LayoutError) as caught:
        placed(PRODUCT, wrong, 1024)
    assert caught.value.code == f"mindspore.{code}"


def test_counts_that_are_no_powers_of_two_are_legal() -> None:
    assert placed(elementwise((6, 9)), ((3, 3),), 9).matrix == (3, 3)


ALIASES = [
    ('Layout((2,4),("dp",))("dp")', "mindspore.aliases",
     "There are 1 aliases for 2 matrix dims. Give one alias a matrix dim."),
    ('Layout((2,4),("dp","dp"))("dp")', "mindspore.aliases", "The alias 'dp' is given twice. Give each once."),
    ('Layout((2,4),("dp",""))("dp")', "mindspore.aliases",
     "'' is not an alias. Use letters, digits and _, but not None."),
    ('Layout((2,4),("dp","None"))("dp")', "mindspore.aliases",
     "'None' is not an alias. Use letters, digits and _, but not None."),
    ('Layout((2,4),("dp",4))("dp")', "mindspore.aliases", "'4' is not an alias. Write it in quotes."),
    ('Layout((2,"4"),("dp","tp"))("dp")', "mindspore.matrix",
     "'\"4\"' is no size of a device matrix. Write e.g. (2, 4)."),
    ('Layout(2,("dp","tp"))("dp")', "mindspore.layout-syntax",
     "'2' is no tuple of the matrix. Write e.g. (2,) or (\"dp\",)."),
    ('Layout((2,),("dp"))("dp")', "mindspore.layout-syntax",
     "'\"dp\"' is no tuple of the aliases. Write e.g. (2,) or (\"dp\",)."),
    ('Layout((2,4),("dp","tp"))', "mindspore.layout-syntax",
     "'Layout((2,4),(\"dp\",\"tp\"))' is not Layout(matrix, aliases)(dims). "
     'Write e.g. Layout((2, 4), ("dp", "tp"))("dp", "None").'),
    ('Layout((2,4),("dp","tp"))("mp")', "mindspore.alias-unknown",
     "There is no alias 'mp'. Use one of: dp, tp, or \"None\"."),
    ('Layout((2,4),("dp","tp"))("dp",("tp","dp"))', "mindspore.alias-reused",
     "The alias 'dp' is used 2 times in one tensor. Use each at most once."),
    ('Layout((2,4),("interleaved_parallel","tp"))("tp")', "mindspore.aliases",
     "'interleaved_parallel' is not the last alias. Put it last."),
    ('Layout((4,2),("dp","interleaved_parallel"))("dp")', "mindspore.interleaved",
     "'interleaved_parallel' cuts a tensor on each device, to hide communication; it is no sharding over devices. "
     "Leave it out."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "said"), ALIASES)
def test_aliases(text: str, code: str, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        alias_layout.read(text)
    assert (caught.value.code, str(caught.value)) == (code, said)


MAPS = [
    ("[2, 4] | [1]", "mindspore.map-length",
     "The tensor map [1] has 1 entries, the tensor 2 dims. Give one entry a dim."),
    ("[2, 4] | [2, 0]", "mindspore.map-range",
     "The tensor map [2, 0] names dim 2 of the device matrix [2, 4]. "
     "Count from the right, from 0 to 1; -1 keeps a dim whole."),
    ("[2, 4] | [1, 1]", "mindspore.map-repeated",
     "The tensor map [1, 1] names dim 1 of the device matrix [2, 4] 2 times. Name each at most once."),
    ("[2, 4] | [(1, 0), 0]", "mindspore.map-repeated",
     "The tensor map [(1, 0), 0] names dim 0 of the device matrix [2, 4] 2 times. Name each at most once."),
    ("[2, 3] | [-1, 0]", "mindspore.map-divides",
     "Dim 1 has size 8, which can't be cut into 3 equal parts (8 % 3 = 2). Use counts that divide 8."),
    ("[0, 4] | [1, 0]", "mindspore.matrix", "The device matrix [0, 4] has no sizes of at least 1. Write e.g. [2, 4]."),
    ("[2, 4] | [1, 0] | (8, 4)", "mindspore.shape",
     "The layout is of a tensor of shape (8, 4), the tensor has (8, 8). Leave the shape out of the layout."),
    ("[2, 4] | [1, x]", "mindspore.map-syntax",
     "'x' is not a number. Write e.g. [2, 4] | [1, 0]; the map counts matrix dims from the right, -1 keeps a dim "
     "whole."),
    ("[2, 4] | 1", "mindspore.map-length",
     "The tensor map [1] has 1 entries, the tensor 2 dims. Give one entry a dim."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "said"), MAPS)
def test_maps(text: str, code: str, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        device_layout.read(text, (8, 8))
    assert (caught.value.code, str(caught.value)) == (code, said)


def test_partial_values_have_no_map() -> None:
    with pytest.raises(LayoutError) as caught:
        DeviceLayout.of(Layout.parse("[dp, -] +tp"), (8, 8), DeviceMesh.parse("dp:2,tp:4"))
    assert str(caught.value) == (
        "[dp, -] +tp is partial over tp; a tensor map says only how dims are sharded. Reduce it first."
    )


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("((2, 4), (4, 1))", ((2, 4), (4, 1))),
        ("((2,),)", ((2,),)),
        ("[[2, 1], []]", ((2, 1), ())),
        ("(2,),(1,)", ((2,), (1,))),
    ],
)
def test_strategies_are_read(text: str, counts) -> None:
    assert read_counts(text) == counts


@pytest.mark.parametrize(
    ("text", "said", "start"),
    [
        ("((2))", "'2' is not a tuple. Write a comma behind a single entry: (2,).", 2),
        ("((2, a),)", "'a' is not a number. Write whole numbers.", 5),
        ("((2, 4)", "'((2, 4)' is not a strategy: ',' or ')' is expected in place of the end. "
         "Write one tuple an input, e.g. ((2, 4), (4, 1)).", 7),
    ],
)  # fmt: skip
def test_strategies_that_are_none(text: str, said: str, start: int) -> None:
    with pytest.raises(LayoutError) as caught:
        read_counts(text)
    assert (caught.value.code, str(caught.value)) == ("mindspore.strategy-syntax", said)
    assert caught.value.place is not None
    assert caught.value.place.start == start
