"""Splits the heads of queries by the groups of the keys that they attend to, where they are made and merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..program import Argument, Program
from .calls import Calls


def grouped(program: Program) -> Program:
    """Return the program with the heads of queries split by the groups of the keys that they attend to."""
    calls = Calls(program)
    split: dict[str, tuple[int, int]] = {}
    for made in program.calls:
        if made.target in _READERS:
            heads, groups = (calls.shape(made.arguments[i])[1] for i in (0, 1))
            if isinstance(heads, int) and isinstance(groups, int) and heads != groups:
                split |= dict.fromkeys(_above(calls, made.arguments[0]), (groups, heads // groups))
        if made.target in (*_ATTENTIONS, "fused.attend"):
            heads, groups = (
                made.results[0].shape[1],
                calls.shape(made.arguments[2 if made.target in _ATTENTIONS else 1])[1],
            )
            below = calls.only_reader(made.name)
            if isinstance(heads, int) and isinstance(groups, int) and below is not None:
                split |= {below.name: (groups, heads // groups)} if below.target == "fused.merge_heads" else {}
    return replace(program, calls=tuple(
        replace(c, keywords=(("groups", split[c.name][0]), ("per_group", split[c.name][1]))) if c.name in split else c
        for c in program.calls
    ))  # fmt: skip


_ATTENTIONS = ("fused.attention", "fused.window_attention", "fused.full_attention", "fused.sink_attention")
_READERS = (*_ATTENTIONS, "fused.attention_scores")
_THROUGH = frozenset({"fused.rotary", "fused.rms_norm", "aten.rms_norm.default", "aten.layer_norm.default",
                      "aten.mul.Tensor", "aten.div.Tensor", "aten.to.dtype", "aten.cat.default",
                      "aten.split_with_sizes.default"})  # fmt: skip


def _above(calls: Calls, x: Argument) -> Iterator[str]:
    """Yield the splits into heads that a query is made of, a head at a time all the way."""
    made = calls.maker(x)
    if made is None:
        return
    if made.target == "fused.split_heads":
        yield made.name
    elif made.target in _THROUGH:
        first = made.arguments[0]
        for source in first if isinstance(first, tuple) else (first,):
            yield from _above(calls, source)
