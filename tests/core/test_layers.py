"""Tokens for layers against the sets of indices that they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.layers import Layers, list_of, of_all_layers, templates

layers = st.builds(Layers, st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)).map(
    lambda x: x if x.count > 1 else Layers(x.first, 1)
)


def indices(some: Layers) -> list[int]:
    return [some.index(i) for i in range(some.count)]


@given(layers)
def test_what_prints_parses(some: Layers) -> None:
    assert Layers.parse(str(some)) == some
    assert indices(some)[-1] == some.last


@given(layers, st.data())
def test_a_part(some: Layers, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, some.count - 1))
    stop = data.draw(st.integers(start + 1, some.count))
    assert indices(some.part(start, stop)) == indices(some)[start:stop]


@given(layers, layers)
def test_a_span_is_of_all_that_are_wanted(some: Layers, wanted: Layers) -> None:
    common = [i for i, index in enumerate(indices(some)) if index in indices(wanted)]
    found = some.span(wanted)
    if found is None:
        assert not common or common != list(range(common[0], common[-1] + 1)) or len(common) == 1
    else:
        assert list(range(*found)) == common


@given(layers, layers)
def test_one_layer_is_always_found(some: Layers, wanted: Layers) -> None:
    alone = Layers(wanted.first, 1)
    assert (some.span(alone) is None) == (alone.first not in indices(some))


@pytest.mark.parametrize("text", ["", "x", "3-", "-3", "5-3", "0-8+0", "*", "1-2-3", "+2"])
def test_no_layers(text: str) -> None:
    assert Layers.parse(text) is None


def test_templates() -> None:
    assert list_of("model.layers") == ("model.layers", None)
    assert list_of("model.layers.3-60") == ("model.layers", Layers(3, 58))
    assert list_of("model.layers.3") == ("model.layers.3", None)
    assert templates("model.layers") == ("model.layers.*",)
    assert templates("model.layers.3-60") == ("model.layers.3-60",)
    assert templates("model.layers.0-23", 2) == ("model.layers.0-22+2", "model.layers.1-23+2")


@pytest.mark.parametrize(
    ("name", "general"),
    [
        ("model.layers.0-0.mlp/dropout", "model.layers.*.mlp/dropout"),
        ("model.layers.3-60/dropout", "model.layers.*/dropout"),
        ("blocks.0-22+2.attn.1-3.drop", "blocks.*.attn.*.drop"),
        ("model.layers.*.mlp/dropout", "model.layers.*.mlp/dropout"),
        ("model.layers.7.mlp/dropout", "model.layers.7.mlp/dropout"),
        ("model.conv1-2.drop", "model.conv1-2.drop"),
    ],
)
def test_a_name_for_all_layers(name: str, general: str) -> None:
    assert of_all_layers(name) == general
