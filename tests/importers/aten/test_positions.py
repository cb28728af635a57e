"""The longest sequence is what the table of learnt positions has rows for."""

import pytest

from planner.core.graph import Block
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers import load_zoo
from planner.importers.aten.positions import longest_seq
from planner.importers.builder import BlockBuilder

ROWS = 514


def positions(size: str, *, start: int = 0, amount: int = 0, doubled: bool = False) -> Block:
    build = BlockBuilder()
    tokens = build.input("tokens", TensorMeta((symbol("B"), symbol("S")), "int64"))
    (at,) = build.node("arange", "arange", attributes={"sizes": size} | ({"start": start} if start else {}))
    if doubled:
        (at,) = build.node("add", "add", at, at)
    if amount:
        (at,) = build.node("shift", "shift", at, attributes={"amount": amount})
    (row,) = build.node("place", "embedding", at, build.parameter("place.weight", (ROWS, 8)))
    (word,) = build.node("word", "embedding", tokens, build.parameter("word.weight", (100, 8)))
    return build.block(row, word)


@pytest.mark.parametrize(
    ("block", "longest"),
    [
        (positions("S"), ROWS),
        (positions("S", amount=2), ROWS - 2),
        (positions("S", start=3, amount=2), ROWS - 5),
        # As many as the model fixes, whatever the sequence; and what is no position.
        (positions("100"), 0),
        (positions("S", doubled=True), 0),
    ],
)
def test_rows_that_are_left_after_the_first(block: Block, longest: int) -> None:
    assert longest_seq(block) == longest


# max_position_embeddings, max_target_positions and n_positions of the configs; T5 and Llama have no such table.
@pytest.mark.parametrize(
    ("name", "longest"), [("bert-base", 512), ("whisper-tiny", 448), ("gpt2", 1024), ("t5-base", 0), ("llama-3-8b", 0)]
)
def test_models_that_come_along(name: str, longest: int) -> None:
    graph = load_zoo(name)
    assert longest_seq(graph.root) == graph.longest_seq == longest
