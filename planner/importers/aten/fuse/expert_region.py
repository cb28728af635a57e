"""Finds where tokens are sorted by expert and where they come back, as `experts` says."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....core.symbol import Size
from ..program import Argument, Call, Ref, reads
from .calls import Calls, base, dims

VIEWS = frozenset({"view", "reshape", "_unsafe_view", "flatten"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Where tokens enter and leave their experts.

    Parameters
    ----------
    order
        Name of the call that sorts what was chosen.
    x, shares, chosen
        Tokens [B, S, k], and for each its experts' shares and indices [B, S, count].
    y
        What the experts made of the sorted tokens.
    """

    order: str
    x: Ref
    shares: Ref
    chosen: Ref
    y: Ref
    experts: int
    inner: tuple[str, ...]


def region_of(calls: Calls, root: Call) -> Region | None:
    """Return the region that ends in a sum over each token's experts; None if the sum is another one."""
    if base(root.target) != "sum" or len(root.arguments) < 2 or dims(root.arguments[1], 3) != (1,):
        return None
    way = _Way(calls)
    view = way.step(root.arguments[0], *VIEWS)
    back = view and way.step(view.arguments[0], "index")
    weighed = back and way.step(back.arguments[0], "mul")
    if view is None or back is None or weighed is None or len(view.results[0].shape) != 3:
        return None
    for y, scale in (weighed.arguments, weighed.arguments[::-1]):
        spread = way.step(scale, "unsqueeze", "view", "reshape")
        shares = spread and way.step(spread.arguments[0], "index")
        if spread is not None and shares is not None and spread.results[0].shape[1:] == (1,) and isinstance(y, Ref):
            return _between(way, y, shares, back, view.results[0].shape[1])
    return None


@dataclass(slots=True)
class _Way:
    """The calls that were passed on the way up."""

    calls: Calls
    passed: list[str] = field(default_factory=list)

    def step(self, argument: Argument, *kinds: str) -> Call | None:
        """Return the call that makes a value, if it is of one of these kinds."""
        made = self.calls.maker(self.calls.uncast(argument))
        if made is None or base(made.target) not in kinds:
            return None
        self.passed.append(made.name)
        return made

    def unflat(self, argument: Argument) -> Ref | None:
        """Return the value [B, S, count] that was made one dim."""
        made = self.calls.maker(self.calls.uncast(argument))
        if made is None or base(made.target) not in VIEWS or len(made.results[0].shape) != 1:
            return None
        self.passed.append(made.name)
        source = self.calls.uncast(made.arguments[0])
        return source if isinstance(source, Ref) else None


def _between(way: _Way, y: Ref, shares: Call, back: Call, count: Size) -> Region | None:
    """Return the region, given where shares are put in the order of experts, and where this is undone."""
    calls, order = way.calls, _only(shares.arguments[1])
    if order is None or not order.name.endswith(":1"):
        return None
    sort = calls.made[order.name]
    if (
        base(sort.target) != "sort"
        or not _plain_sort(sort)
        or not _inverse(calls, back.arguments[1], order, way.passed)
    ):
        return None
    top, chosen = way.unflat(shares.arguments[0]), way.unflat(sort.arguments[0])
    if top is None or chosen is None or len(calls.shape(top)) != 3:
        return None
    found = tokens_of(calls, y, sort.name, count)
    if calls.shape(top) != calls.shape(chosen) or calls.shape(top)[-1] != count or found is None:
        return None
    x, experts = found
    if calls.shape(x)[:2] != calls.shape(top)[:2]:
        return None
    return Region(order=sort.name, x=x, shares=top, chosen=chosen, y=y, experts=experts, inner=(*way.passed, sort.name))


def _only(places: Argument) -> Ref | None:
    """Return the index of an indexing along the first dim."""
    if isinstance(places, tuple) and len(places) == 1 and isinstance(places[0], Ref):
        return places[0]
    return None


def _plain_sort(sort: Call) -> bool:
    """Whether it sorts upwards along the one dim; `argsort` and `stable` make no difference within an expert."""
    return len(sort.arguments) < 3 or sort.arguments[2] is False


def _inverse(calls: Calls, places: Argument, order: Ref, inner: list[str]) -> bool:
    """Whether an index is the inverse of the order: its sort, or 0, 1, … written to its places."""
    back = _only(places)
    made = calls.maker(back) if back else None
    if made is None:
        return False
    inner.append(made.name)
    if base(made.target) in ("sort", "argsort"):
        return (
            made.arguments[0] == order
            and _plain_sort(made)
            and (base(made.target) == "argsort" or back != Ref(made.name))
        )
    if base(made.target) not in ("index_put", "scatter"):
        return False
    where = made.arguments[1] if base(made.target) == "index_put" else (made.arguments[2],)
    count = calls.maker(made.arguments[2] if base(made.target) == "index_put" else made.arguments[3])
    fits = _only(where) == order and count is not None and base(count.target) == "arange"
    if not fits or count is None:
        return False
    size = count.arguments[0] if len(count.arguments) == 1 else None
    return size == calls.shape(order)[0]


def enters(calls: Calls, made: Call, region: Region) -> bool:
    """Whether a call takes each sorted token's row."""
    found = _entry(calls, made, region.order, calls.shape(region.shares)[-1])
    return found == region.x


def _entry(calls: Calls, made: Call, order: str, count: Size) -> Ref | None:
    """Return the tokens [B, S, k] whose rows a call sorts."""
    place = _only(made.arguments[1]) if len(made.arguments) > 1 else None
    token = calls.maker(place) if place else None
    rows = calls.maker(calls.uncast(made.arguments[0]))
    if token is None or rows is None or base(rows.target) not in VIEWS:
        return None
    divided = base(token.target) == "floor_divide" or (
        base(token.target) == "div" and token.keyword("rounding_mode") in ("floor", "trunc")
    )
    if not divided or token.arguments[0] != Ref(f"{order}:1") or token.arguments[1] != count:
        return None
    source = calls.uncast(rows.arguments[0])
    return source if isinstance(source, Ref) and len(calls.shape(source)) == 3 else None


def tokens_of(calls: Calls, y: Ref, order: str, count: Size) -> tuple[Ref, int] | None:
    """Return the tokens that come to the experts, and how many these are, by walking up from what they made."""
    waiting, seen = [y.name], set[str]()
    x: Ref | None = None
    experts = 0
    while waiting:
        made = calls.made.get(waiting.pop())
        if made is None or made.name in seen or made.name == order:
            continue
        seen.add(made.name)
        if base(made.target) == "index":
            x = _entry(calls, made, order, count) or x
            continue
        if base(made.target) in ("_grouped_mm", "grouped_mm_fallback"):
            size = calls.shape(made.arguments[1])[0]
            experts = size if isinstance(size, int) else 0
        waiting += reads(made)
    return (x, experts) if x is not None and experts else None
