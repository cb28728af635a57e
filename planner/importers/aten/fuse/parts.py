"""Parts of a value along one dim, however the code cuts them: `slice`, `narrow`, `chunk`, `split`, `unbind`."""

from __future__ import annotations

from ....core.symbol import Size
from ..program import Argument, Call
from .calls import Calls, base, dims, index_of

Part = tuple[Argument, Argument]
"""The whole, and which part of it: dim from the end, first element, end, step."""


def along_last(calls: Calls, argument: Argument) -> Part | None:
    """Return the whole and (start, end, step) of a part along the last dim."""
    found = cut(calls, argument)
    if found is None:
        return None
    whole, dim, *bounds = found
    return (whole, tuple(bounds)) if dim == len(calls.shape(whole)) - 1 else None


def half(calls: Calls, argument: Argument) -> Part | None:
    """Return the whole and 0 or 1 for the first or the second half of the last dim."""
    found = along_last(calls, argument)
    if found is None:
        return None
    whole, bounds = found
    size = calls.shape(whole)[-1]
    if isinstance(size, int) and size % 2 == 0:
        for index, wanted in enumerate(((0, size // 2, 1), (size // 2, size, 1))):
            if bounds == wanted:
                return whole, index
    return None


def neighbour(calls: Calls, argument: Argument) -> Part | None:
    """Return the whole and 0 or 1 for the even or the odd elements of the last dim."""
    found = along_last(calls, argument) or _of_pairs(calls, argument)
    if found is None:
        return None
    whole, bounds = found
    size = calls.shape(whole)[-1]
    if isinstance(size, int) and size % 2 == 0:
        for index in (0, 1):
            if bounds == (index, size, 2):
                return whole, index
    return None


def _of_pairs(calls: Calls, argument: Argument) -> Part | None:
    """Return the whole, and every second element of it, where code has made a dim of pairs and picks one of each."""
    picked = calls.maker(calls.uncast(argument))
    if picked is None or base(picked.target) != "select":
        return None
    view = calls.maker(calls.uncast(picked.arguments[0]))
    if view is None or base(view.target) not in ("view", "reshape", "unflatten", "_unsafe_view"):
        return None
    before, after = calls.shape(view.arguments[0]), view.results[0].shape
    last = dims(picked.arguments[1], len(after)) == (len(after) - 1,)
    if not last or after[:-2] != before[:-1] or after[-1] != 2 or not isinstance(picked.arguments[2], int):
        return None
    return view.arguments[0], (picked.arguments[2] % 2, before[-1], 2)


def cut(calls: Calls, argument: Argument) -> tuple[Argument, int, Size, Size, int] | None:
    """Return the whole, the dim, first element, end and step of a part; None for what is no part."""
    call = calls.maker(argument)
    if call is None or not call.arguments:
        return None
    reader = _CUTS.get(base(call.target))
    return None if reader is None else reader(calls, call, index_of(argument))


def _place(argument: Argument, rank: int) -> int | None:
    return next(iter(dims(argument, rank)), None)


def _slice(calls: Calls, call: Call, _: int) -> tuple[Argument, int, Size, Size, int] | None:
    x = call.arguments[0]
    shape = calls.shape(x)
    left_out: tuple[Argument, ...] = (x, 0, None, None, 1)
    dim, start, end, step = (*call.arguments[1:], *left_out[len(call.arguments) :])
    place = _place(dim, len(shape))
    if place is None or not isinstance(step, int):
        return None
    size = shape[place]
    first = 0 if start is None else start
    last = size if end is None else end
    if not isinstance(size, int):
        # The end of an open dim is known only where the slice takes all that follows.
        whole = end is None or (isinstance(end, int) and end >= _OPEN)
        return (x, place, first, size, step) if whole and isinstance(first, int) else None
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    picked = range(size)[first:last:step]
    return x, place, picked.start, min(size, picked.stop), step


def _narrow(calls: Calls, call: Call, _: int) -> tuple[Argument, int, Size, Size, int] | None:
    x, dim, start, length = call.arguments
    place = _place(dim, len(calls.shape(x)))
    if place is None or not isinstance(start, int) or not isinstance(length, int):
        return None
    return x, place, start, start + length, 1


def _pieces(calls: Calls, call: Call, index: int) -> tuple[Argument, int, Size, Size, int] | None:
    x = call.arguments[0]
    place = _place(call.arguments[2] if len(call.arguments) > 2 else 0, len(calls.shape(x)))
    if place is None:
        return None
    lengths = [meta.shape[place] for meta in call.results]
    start: Size = 0
    for length in lengths[:index]:
        start = start + length
    return x, place, start, start + lengths[index], 1


_OPEN = 2**63 - 1
PIECES = frozenset({"chunk", "split", "split_with_sizes", "tensor_split"})
"""Calls that cut a value into pieces, all of which together are the whole."""
_CUTS = {
    "slice": _slice,
    "narrow": _narrow,
    **dict.fromkeys(PIECES, _pieces),
}
