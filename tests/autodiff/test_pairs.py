"""The table of forward and backward pairs in semantics.md, each row as the result of a small graph."""

import pytest

from planner.compose import train
from tests.proof.random_plans import draw

from .chain import chain, fanout, moves
from .pairs import BATCH, COLUMN, ROW, ROWS, S1, SEQ, WHOLE, Operator, P, R, keys


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


def test_there_are_no_other_pairs() -> None:
    """On every axis, every reader of every value of random plans is one of the thirteen, and each of them occurs."""
    rows = set()
    for first, second, _, _ in ROWS.values():
        operator: Operator = (first[0], {axis: (0,) for axis in first[1]})
        rows |= keys(fanout(chain("t:2", a=operator, b0=second), "a"), "t")
    assert len(rows) == len(ROWS) == 13
    found = set()
    for seed in range(24):
        plan = draw(seed, 4 + 4 * (seed % 2)).plan
        for scope in train(plan).scopes:
            for value in scope.fanouts:
                # A parameter's gradient may lie anywhere.
                if value.backward and value.kind != "parameter":
                    for axis, size in plan.decisions.mesh.axes:
                        found |= keys(value, axis) if size > 1 else set()
    assert found == rows
