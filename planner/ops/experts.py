"""Mixture of experts in its dense form: tokens to slots, expert by expert, and back.

`route` gives each token its best experts and a slot in each one's buffer, sequence by sequence; `place` does so with
experts that were chosen by other operators. `dispatch` copies tokens to their slots, `expert_linear` (`matmul`) is
each expert's own matrix, and `collect` adds up what the experts made of a token. With the batch sharded before and the
experts sharded inside, the values go from one to the other by all-to-all: that is how expert parallelism comes about.

With a `capacity` an expert has so many slots a sequence, and drops what comes later. Without one it has a slot for
every token and drops nothing; the work of the experts, and the room, are then those of all slots, filled or not.

Source: Lepikhin et al. 2020, GShard, algorithm 1: groups (here the sequences), capacity, and places by order of token.
"""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, RuleOf, Shape, shapes_of
from .lines import misfit

_PLACES = "an expert's slots are filled by all tokens of a sequence in order"


def _route_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    shape = operands[0].shape
    capacity = attributes.get("capacity", shape[1])
    # A token is at most once in an expert's queue, so as many slots as tokens drop none.
    assert not isinstance(capacity, float | str | tuple)
    return (TensorMeta((*shape, capacity), operands[0].dtype),)


def _route_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "batch seq expert -> batch seq expert slot", shapes=shapes_of(operands + results),
        blocked={"seq": _PLACES, "expert": "a token chooses among all experts", "slot": _PLACES},
    )  # fmt: skip


def _route_torch(local: Local) -> str:
    count, normalized = (local.attribute(name) for name in ("count", "normalized"))
    capacity = local.results[0][-1]
    return f"ops.route({local.arguments[0]}, count={count}, capacity={capacity}, normalized={normalized})"


def _place_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    weights, chosen = operands
    experts, capacity = attributes["experts"], attributes.get("capacity", weights.shape[1])
    assert isinstance(experts, int)
    assert not isinstance(capacity, float | str | tuple)
    if weights.shape != chosen.shape or len(weights.shape) != 3:
        raise misfit(f"{weights} and {chosen} are no weights of what tokens choose, [batch, seq, choice]")
    return (TensorMeta((*weights.shape[:2], experts, capacity), weights.dtype),)


def _place_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "batch seq choice, batch seq choice -> batch seq expert slot", shapes=shapes_of(operands + results),
        names=("x", "indices"), terms="x",
        blocked={"seq": _PLACES, "choice": _PLACES, "slot": _PLACES}, even=frozenset({"expert"}),
    )  # fmt: skip


def _place_torch(local: Local) -> str:
    experts, capacity = local.results[0][2:]
    first = f", first={local.start['expert']}" if "expert" in local.start else ""
    return f"ops.place({', '.join(local.arguments)}, experts={experts}, capacity={capacity}{first})"


def _dispatch_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    (batch, _seq, expert, slot), x = operands[0].shape, operands[1]
    return (TensorMeta((expert, batch, slot, x.shape[2]), x.dtype),)


def _collect_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    weights, x = operands
    return (TensorMeta((*weights.shape[:2], x.shape[3]), x.dtype),)


def _rule_of(line: str, second: str) -> RuleOf:
    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
        return ShardingRule.parse(
            line, shapes=shapes_of(operands + results), names=("weights", "x"), terms=second,
            even=frozenset({"expert"}),
        )  # fmt: skip

    return rule


def _flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
    return 2.0 * prod(operands[0]) * operands[1][-1]


ROUTE = OpDef(
    name="route",
    summary="weight of each token in each slot of each expert: its best experts, while they have room",
    operands=("probabilities",),
    infer=_route_infer,
    rule=_route_rule,
    flops=lambda operands, results: 10.0 * prod(operands[0]) + 2.0 * prod(results[0]),
    backward_flops=lambda _operands, results: 2.0 * prod(results[0]),
    differentiable=("probabilities",),
    torch=_route_torch,
)
PLACE = OpDef(
    name="place",
    summary="weight of each token in each slot of the experts that it chose, while they have room",
    operands=("x", "indices"),
    infer=_place_infer,
    rule=_place_rule,
    flops=lambda operands, results: 4.0 * prod(operands[0]) * results[0][2] + 2.0 * prod(results[0]),
    backward_flops=lambda _operands, results: 2.0 * prod(results[0]),
    # Where each choice went.
    extra_saved=lambda operands, _: 8.0 * prod(operands[0]),
    differentiable=("x",),
    torch=_place_torch,
)
DISPATCH = OpDef(
    name="dispatch",
    summary="each token in the slots in which it has a weight",
    operands=("weights", "x"),
    infer=_dispatch_infer,
    rule=_rule_of("batch seq expert slot, batch seq k -> expert batch slot k", "x"),
    flops=_flops,
    backward_flops=_flops,
    # Which slots are taken, in the type of x.
    extra_saved=lambda operands, size: float(size * prod(operands[0])),
    differentiable=("x",),
    matmul=True,
    torch=lambda local: f"ops.dispatch({', '.join(local.arguments)})",
)
COLLECT = OpDef(
    name="collect",
    summary="weighted sum for each token of what is in its slots",
    operands=("weights", "x"),
    infer=_collect_infer,
    rule=_rule_of("batch seq expert slot, expert batch slot n -> batch seq n", "weights*x"),
    flops=_flops,
    backward_flops=lambda operands, results: 2 * _flops(operands, results),
    saved=("weights",),
    # x sequence by sequence.
    extra_saved=lambda operands, size: float(size * prod(operands[1])),
    differentiable=("weights", "x"),
    matmul=True,
    torch=lambda local: f"ops.collect({', '.join(local.arguments)})",
)
EXPERTS = (ROUTE, PLACE, DISPATCH, COLLECT)
