"""Sequences that are sharded around attention: what gathering keys, exchanging heads and sharding keys come to."""

import pytest

from planner.compose import train
from planner.core.assignment import Fanout, TrainingGraph
from tests.tiny import tiny_plan

ATTENTION = "model.layers.*.self_attn/attention"
Steps = tuple[set[tuple[str, ...]], set[tuple[str, ...]]]


def sequence(**factors: tuple[str, ...]) -> TrainingGraph:
    """Return a decoder whose sequence is sharded over `a`, with other decisions for attention."""
    plan = tiny_plan("a:2").shard("*", {"seq": ("a",)})
    return train(plan.shard(ATTENTION, {"seq": ()} | factors))


def moves(training: TrainingGraph, operand: int) -> Steps:
    """Return the steps to an operand of the attention, forward and backward."""
    found: Steps = (set(), set())
    for scope in training.scopes:
        for fanout in scope.fanouts:
            for position, reader in enumerate(fanout.readers):
                if reader.node.startswith(ATTENTION) and reader.operand == operand:
                    found[0].add(_kinds(fanout, position, backward=False))
                    found[1].add(_kinds(fanout, position, backward=True))
    return found


def after(training: TrainingGraph) -> Steps:
    """Return the steps on the way out of the attention, and of the gradient into it."""
    out = [f for scope in training.scopes for f in scope.fanouts if f.value == ATTENTION]
    return {_kinds(f, 0, backward=False) for f in out}, {_kinds(f, 0, backward=True) for f in out}


def _kinds(fanout: Fanout, position: int, *, backward: bool) -> tuple[str, ...]:
    deliveries = fanout.backward if backward else fanout.forward
    return next(tuple(s.kind for s in d.redistribution.steps) for d in deliveries if position in d.readers)


def test_queries_on_shards_gather_keys_and_values() -> None:
    training = sequence(seq=("a",))
    assert moves(training, 0) == ({()}, {()})
    for operand in (1, 2):
        assert moves(training, operand) == ({("all_gather",)}, {("reduce_scatter",)})
    assert after(training) == ({()}, {()})


def test_heads_on_shards_exchange_heads_for_positions_and_back() -> None:
    """Ulysses: every operand goes from positions to heads by one all-to-all, and the result back by another."""
    training = sequence(g=("a",))
    for operand in (0, 1, 2):
        assert moves(training, operand) == ({("all_to_all",)}, {("all_to_all",)})
    assert after(training) == ({("all_to_all",)}, {("all_to_all",)})


def test_keys_on_shards_share_out_the_sums() -> None:
    """Keys and values stay where they are; queries are gathered, and the result is scattered to positions."""
    training = sequence(key=("a",))
    scores = {f.value: f for scope in training.scopes for f in scope.fanouts if f.value.startswith(f"{ATTENTION}~")}
    assert _kinds(scores[f"{ATTENTION}~row_max"], 0, backward=False) == ("all_reduce",)
    assert _kinds(scores[f"{ATTENTION}~sum_exp"], 0, backward=False) == ("all_reduce",)
    assert after(training)[0] == {("reduce_scatter",)}
    assert after(training)[1] == {("all_gather",)}


def test_an_axis_is_used_once() -> None:
    """A ring of keys would have queries and keys on one axis."""
    with pytest.raises(Exception, match=r"axis 'a' is used for key and for seq"):
        sequence(seq=("a",), key=("a",))
