"""The table of forward and backward pairs in semantics.md, each row as the result of a small graph."""

from collections.abc import Mapping

import pytest

from .chain import chain, fanout, moves

Operator = tuple[Mapping[str, str], Mapping[str, tuple[int, ...]]]

WHOLE: Operator = ({}, {})
BATCH: Operator = ({"batch": "t"}, {})
SEQ: Operator = ({"seq": "t"}, {})
COLUMN: Operator = ({"n": "t"}, {})
ROW: Operator = ({"k": "t"}, {})
KEPT: Operator = ({}, {"t": (0, 2)})
R, P, S0, S1 = "[-, -, -]", "[-, -, -] +t", "[t, -, -]", "[-, t, -]"

ROWS: dict[str, tuple[Operator, Operator, str, str]] = {
    "R→R, unused by the reader": (WHOLE, WHOLE, f"{R} → {R}: none", f"{R} → {R}: none"),
    "R→R, reader sharded": (WHOLE, COLUMN, f"{R} → {R}: none", f"{P} → {R}: all_reduce"),
    "R→S": (WHOLE, BATCH, f"{R} → {S0}: slice", f"{S0} → {R}: all_gather"),
    "S→S": (BATCH, BATCH, f"{S0} → {S0}: none", f"{S0} → {S0}: none"),
    "S→S'": (BATCH, SEQ, f"{S0} → {S1}: all_to_all", f"{S1} → {S0}: all_to_all"),
    "S→R, reader sharded": (SEQ, COLUMN, f"{S1} → {R}: all_gather", f"{P} → {S1}: reduce_scatter"),
    "S→R, reader replicated": (SEQ, WHOLE, f"{S1} → {R}: all_gather", f"{R} → {S1}: slice"),
    "P→R, reader replicated": (ROW, WHOLE, f"{P} → {R}: all_reduce", f"{R} → {R}: none"),
    "P→R, reader uses the axis": (ROW, COLUMN, f"{P} → {R}: all_reduce", f"{P} → {R}: all_reduce"),
    "P→S": (ROW, BATCH, f"{P} → {S0}: reduce_scatter", f"{S0} → {R}: all_gather"),
    "P→P": (ROW, KEPT, f"{P} → {P}: none", f"{R} → {R}: none"),
    "R→P": (WHOLE, KEPT, f"{R} → {P}: zero", f"{R} → {R}: none"),
    "S→P": (BATCH, KEPT, f"{S0} → {P}: pad", f"{R} → {S0}: slice"),
}


@pytest.mark.parametrize("row", ROWS)
def test_pair(row: str) -> None:
    first, second, forward, backward = ROWS[row]
    operator: Operator = (first[0], {axis: (0,) for axis in first[1]})
    assert moves(fanout(chain("t:2", a=operator, b0=second), "a")) == ([forward], [backward])


def test_a_bias_under_a_sharded_contraction_is_zeroed_but_on_one_rank() -> None:
    training = chain("t:2", a=WHOLE, b0=ROW)
    assert moves(fanout(training, "b0.bias")) == (["[-] → [-] +t: zero"], ["[-] → [-]: none"])


def test_data_parallel_weights_are_all_reduced() -> None:
    training = chain("t:2", a=BATCH, b0=BATCH)
    for name, layout in (("a.weight", "[-, -]"), ("b0.weight", "[-, -]"), ("b0.bias", "[-]")):
        assert moves(fanout(training, name)) == (
            [f"{layout} → {layout}: none"],
            [f"{layout} +t → {layout}: all_reduce"],
        )


def test_readers_that_agree_share_one_way_there_and_back() -> None:
    training = chain("t:2", a=SEQ, b0=COLUMN, b1=COLUMN, b2=COLUMN)
    found = fanout(training, "a")
    assert moves(found) == ([f"{S1} → {R}: all_gather"], [f"{P} → {S1}: reduce_scatter"])
    assert [d.readers for d in (*found.forward, *found.backward)] == [(0, 1, 2)] * 2


def test_raw_gradients_are_added_only_if_their_layouts_are_equal() -> None:
    """Two readers want a alike, and one hands back a partial sum: they share the way there and not the way back."""
    training = chain("t:2", a=WHOLE, b0=COLUMN, b1=WHOLE)
    found = fanout(training, "a")
    assert moves(found) == ([f"{R} → {R}: none"], [f"{P} → {R}: all_reduce", f"{R} → {R}: none"])
    assert [d.readers for d in found.forward] == [(0, 1)]
    assert [d.readers for d in found.backward] == [(0,), (1,)]


def test_the_backward_is_no_function_of_the_forward() -> None:
    """An all-gather comes back as a reduce-scatter, as a slice, or as both, by its readers."""
    training = chain("t:2", a=SEQ, b0=COLUMN, b1=WHOLE)
    assert moves(fanout(training, "a")) == (
        [f"{S1} → {R}: all_gather"],
        [f"{P} → {S1}: reduce_scatter", f"{R} → {S1}: slice"],
    )


def test_axes_are_treated_one_by_one() -> None:
    training = chain("t:2,u:2", a=({"seq": "t", "k": "u"}, {}), b0=({"batch": "u", "n": "t"}, {}))
    forward, backward = moves(fanout(training, "a"))
    assert forward[0].startswith("[-, t, -] +u → [u, -, -]: ")
    assert backward[0].startswith("[u, -, -] +t → [-, t, -]: ")


def test_values_without_gradient_have_no_backward() -> None:
    training = chain("t:2", a=BATCH, b0=BATCH)
    for name in ("tokens", "labels"):
        found = fanout(training, name)
        assert found.backward == ()
        assert found.gradient is None
        assert all(reader.raw is None for reader in found.readers)
    loss = fanout(training, "loss")
    assert moves(loss) == (["[] → []: none"], ["[] → []: none"])


def test_the_count_of_targets_is_whole_before_the_division() -> None:
    training = chain("t:2", a=BATCH, b0=BATCH)
    count = next(f for f in training.scopes[0].fanouts if "count" in f.value)
    assert moves(count) == (["[] +t → []: all_reduce"], [])
