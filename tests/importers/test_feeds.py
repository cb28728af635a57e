"""What inputs are fed with: told by direct builders, found out from their readers elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.core.graph import Feed
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.errors import ModelError
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import feeds_of
from tests.tiny import tiny_gpt2, tiny_graph

BATCH = symbol("B")


def test_a_decoder_learns_the_next_token() -> None:
    for graph in (tiny_graph(), tiny_gpt2()):
        tokens, labels = graph.feeds
        assert (tokens.kind, tokens.low, tokens.high) == ("integers", 0, 32)
        assert (labels.kind, labels.next_of, labels.ignored) == ("next", "tokens", -100)


def test_bounds_are_found_from_the_readers() -> None:
    tokens, labels = feeds_of(tiny_graph().root)
    assert (tokens.high, tokens.ignored) == (32, None)
    assert (labels.high, labels.ignored) == (32, -100)


def test_bounds_are_found_through_what_moves_values() -> None:
    build = BlockBuilder()
    ids = build.input("ids", TensorMeta((BATCH, 3), "int64"))
    pixels, kept, count = (
        build.input("pixels", TensorMeta((BATCH, 4))), build.input("kept", TensorMeta((BATCH,), "bool")),
        build.input("count", TensorMeta((BATCH,), "int64")),
    )  # fmt: skip
    (first,) = build.node("first", "select", ids, attributes={"dim": 1, "index": 0})
    wide, narrow = build.parameter("wide", (9, 4)), build.parameter("narrow", (7, 4))
    build.node("a", "embedding", ids, wide)
    build.node("b", "embedding", first, narrow)
    feeds = {feed.name: feed for feed in feeds_of(build.block())}
    assert (feeds[ids].kind, feeds[ids].high) == ("integers", 7)
    assert (feeds[pixels].kind, feeds[kept].kind) == ("normal", "mask")
    assert (feeds[count].kind, feeds[count].high) == ("integers", 2)


def test_labels_of_whole_samples_are_never_ignored() -> None:
    build = BlockBuilder()
    logits, labels = build.input("logits", TensorMeta((BATCH, 5))), build.input("labels", TensorMeta((BATCH,), "int64"))
    build.node("loss", "cross_entropy", logits, labels, attributes={"ignore_index": -100})
    assert feeds_of(build.block())[1] == Feed(name="labels", kind="integers", high=5)


def test_what_is_told_wins_and_has_to_be_an_input() -> None:
    root = tiny_graph().root
    told = Feed(name="labels", kind="next", next_of="tokens")
    assert feeds_of(root, (told,))[1] == told
    with pytest.raises(ModelError, match="no input 'pixels'"):
        feeds_of(root, (replace(told, name="pixels"),))


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "strings"}, {"kind": "integers", "high": 0}, {"kind": "next"}, {"kind": "normal", "next_of": "tokens"}],
)
def test_a_feed_that_takes_no_value_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ModelError) as found:
        Feed(name="x", **wrong)  # type: ignore[arg-type]
    assert found.value.diagnostic.code == "model.feed"


def test_a_graph_knows_its_symbols() -> None:
    assert tiny_graph().symbols == ("B", "S")
