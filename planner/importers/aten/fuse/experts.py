"""Mixtures of experts: tokens sorted by expert, one product a group → tokens in slots, one product an expert.

```text
order = sort(chosen).indices                           [k·T] places of tokens, expert by expert
y     = body(x[order // k], grouped_mm(…, weight))     each row by the weight of its expert
out   = Σ over k of (y · shares[order])[inverse order]
```

becomes `fused.route` (or `fused.place` of what another router chose), `fused.dispatch`, the body on slots, and
`fused.collect`. Each sequence has its own slots, as many as it has tokens, so none is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls, base
from .expert_body import Body
from .expert_region import Region, region_of
from .match import Found, call, either, last_dim, number, value
from .rewrite import Pattern, Replacement, beside


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    region = region_of(calls, root)
    if region is None:
        return None
    batch, seq = calls.shape(region.x)[:2]
    made, inner = _router(calls, root, region)
    slots = Ref(made[-1].name)
    body = Body(calls=calls, region=region, slots=slots, lead=(region.experts, batch, seq))
    y = body.move(calls.uncast(region.y))
    if y is None or len(body.shape(y)) != 4:
        return None
    meta = TensorMeta((batch, seq, body.shape(y)[-1]), calls.meta(region.x).dtype)
    collected = beside(root, "collect", "fused.collect", (slots, y), meta)
    shape = root.results[0].shape
    # The sum is of rows; a view that takes them back to batch and sequence follows and goes.
    rows = replace(root, target="aten.view.default", arguments=(Ref(collected.name), shape), keywords=(),
                   results=(TensorMeta(shape, meta.dtype),))  # fmt: skip
    return Replacement(
        calls=(*made, *body.made, collected, rows), inner=(*region.inner, *inner, *body.inner), shapes=body.shapes
    )


def _router(calls: Calls, root: Call, region: Region) -> tuple[list[Call], tuple[str, ...]]:
    """Return the calls that give each token's weights in its slots."""
    batch, seq, count = calls.shape(region.shares)
    assert isinstance(count, int)
    meta = TensorMeta((batch, seq, region.experts, seq), calls.meta(region.x).dtype)
    best = call("topk", value("probabilities"), number("count"), bind="best", allow=("dim",))
    best = either(best, call("topk", value("probabilities"), number("count"), last_dim, bind="best"))
    total = call("sum", best, last_dim, True)
    for normalized, tree in ((True, call("div", best, total)), (False, best)):
        for found in tree(calls, calls.uncast(region.shares), Found()):
            first = found["best"]
            assert isinstance(first, Ref)
            if region.chosen.name != f"{first.name}:1" or calls.shape(found["probabilities"])[-1] != region.experts:
                continue
            shares = _unpromoted(calls, found["probabilities"])
            attributes: tuple[tuple[str, Argument], ...] = (("count", count), ("normalized", normalized))
            return [
                *shares[0],
                beside(root, "route", "fused.route", (shares[1],), meta, keywords=attributes),
            ], found.inner
    placed = beside(root, "place", "fused.place", (region.shares, region.chosen), meta,
                    keywords=(("experts", region.experts),))  # fmt: skip
    return [placed], ()


def _unpromoted(calls: Calls, probabilities: Argument) -> tuple[list[Call], Argument]:
    """Return probabilities as a softmax in the type of its scores, which rounds inside as it did."""
    made = calls.maker(probabilities)
    if made is None or base(made.target) != "softmax":
        return [], probabilities
    scores = calls.uncast(made.arguments[0])
    meta = TensorMeta(calls.shape(scores), calls.meta(scores).dtype)
    own = replace(made, name=f"{made.name}_shares", arguments=(scores, made.arguments[1]), keywords=(), results=(meta,))
    return [own], Ref(own.name)


EXPERTS = Pattern(name="experts", roots=frozenset({"sum"}), rewrite=_rewrite)
