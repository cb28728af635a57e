"""Plans whose bundles are changed step by step, and which changes leave every number as it is, with the reason.

Semantics names true equivalents: an axis that shards a dim of size 1, empty shards, and a Partial that came from R→P.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType

from planner.core.layout import Layout
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .sabotage import Sabotage

Shapes = Mapping[str, tuple[int, ...]]


def _states(data: str) -> Plan:
    """Tensor and sequence parallelism with a way of data parallelism, in one layer with biases."""
    graph = tiny_graph("llama-biased", num_hidden_layers=1)
    presets = ((data, "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    return tiny_plan("dp:2,tp:2", *presets, graph=graph)


def _block() -> Plan:
    """Grouped heads, biases, dropout, tied weights, kept Partials, a norm over its width, attention over queries."""
    graph = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=1, num_key_value_heads=2))
    presets = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    plan = tiny_plan("dp:2,tp:2", *presets, graph=graph, microbatches=2)
    return (
        plan.shard("input_layernorm", {"seq": (), "h": ("tp",)})
        .shard("attention", {"g": (), "r": (), "seq": ("tp",)})
        .shard("self_attn.dropout", {"seq": ()})
        .keep("self_attn.dropout", "tp", (0,))
        .shard("residual_attention", {"seq": ()})
        .keep("residual_attention", "tp", (0, 1))
    )


def _unequal() -> Plan:
    """Sizes that no axis divides; with three sequences over four ranks, one has none, and of 7 features one has one."""
    graph = with_dropout(
        tiny_graph(
            "llama-biased", tied=True, num_hidden_layers=1, num_key_value_heads=2, vocab_size=33, intermediate_size=7,
            hidden_size=30,
        )
    )  # fmt: skip
    presets = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    plan = tiny_plan("dp:4,tp:2", *presets, graph=graph)
    return plan.batch(global_batch=6, seq=7, microbatches=2)


PLANS: dict[str, Callable[[], Plan]] = {
    "data_parallel": lambda: _states("data_parallel"),
    "zero3": lambda: _states("zero3"),
    "block": _block,
    "unequal": _unequal,
}
WHOLE = {"block", "unequal"}
"""Plans of which steps are dropped and doubled only."""
UPDATED: dict[str, Callable[[], Plan]] = {
    "zero1": lambda: _states("zero1"),
    "zero2, deferred": lambda: _states("zero2").store("*", of="gradient", deferred=True),
    "elsewhere": lambda: _states("zero2").store("*_proj.weight", of="optimizer", layout="[-, dp]"),
}
"""Plans whose updates move something."""


def equivalent(change: Sabotage, shapes: Shapes = MappingProxyType({})) -> str:
    """Return why a change leaves every number as it is; empty if it does not.

    Parameters
    ----------
    shapes
        Global shapes of values, where a dim may be of size 1.
    """
    if change.change == "double" and change.kind in {"Exchange", "Slice"} and set(_cut(change, shapes)) == {1}:
        return (
            "of an index that is alone, the first rank keeps it or sends it again, and the others have nothing to cut"
        )
    if change.kind in {"Exchange", "Permute"} and change.change.startswith("over"):
        return "it moves what two layouts differ in: a group of more ranks, or in another order, moves the same"
    if change.change.startswith("swap") and _commutes(change):
        return "the two steps follow each other, over different axes and not on one dim: their order does not matter"
    if change.kind == "Zero" and change.change == "double":
        return "zeros stay zeros, and who keeps its values keeps them twice"
    if change.kind == "AllReduce":
        if change.change == f"over {'·'.join(reversed(change.axes))}:":
            return "a sum does not depend on the order of its group"
        if "max" in change.step and change.change == "double":
            return "the maximum of equal numbers is that number"
        if "max" in change.step and change.change == "over dp·tp:":
            return "log Σ exp(x − m) + m is the same for every m that the vocabulary's shards share"
    return ""


def _commutes(change: Sabotage) -> bool:
    """Return whether a swap is of neighbours of one list that act on different axes, and not on one dim."""
    (position, index, (taken,)), (there, at, (step,)) = change.edits
    one, other = ({k.arg: ast.literal_eval(k.value) for k in each.keywords} for each in (step, taken))  # type: ignore[attr-defined]
    if position != there or at != index + 1 or "axes" not in one or "axes" not in other:
        return False
    apart = "dim" not in one or "dim" not in other or one["dim"] != other["dim"]
    return apart and set(one["axes"]).isdisjoint(other["axes"])


def _cut(change: Sabotage, shapes: Shapes) -> list[int]:
    """Return the sizes of the dims that a slice cuts or an exchange moves."""
    call = ast.parse(change.step, mode="eval").body
    assert isinstance(call, ast.Call)
    given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    if change.kind == "Slice":
        return [shapes[change.value][given["dim"]]] if change.value in shapes else []
    source, target = Layout.parse(given["source"]), Layout.parse(given["target"])
    return [n for n, a, b in zip(given["shape"], source.dims, target.dims, strict=True) if a != b]
