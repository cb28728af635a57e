"""Which nodes, parameters and layers a decision's target names; the syntax is in `planner.core.plan`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

Span = tuple[int, int]
EVERYWHERE: Span = (0, 1 << 60)


@lru_cache(maxsize=65536)
def span(target: str, name: str) -> Span | None:
    """Return the layers `start … stop-1` of the template `name` that `target` names; None if it names none.

    Parameters
    ----------
    target
        Tokens with dots or slashes between, matched against any run of consecutive tokens of the name.
    name
        Path of a node or parameter, with `*` for the layer index.
    """
    wanted, tokens = re.split(r"[./]", target), re.split(r"[./]", name)
    for start in range(len(tokens) - len(wanted) + 1):
        spans = [_token(w, t) for w, t in zip(wanted, tokens[start:], strict=False)]
        found = [s for s in spans if s is not None]
        if len(found) == len(spans):
            return max(s for s, _ in found), min(s for _, s in found)
    return None


def covers(target: str, name: str, layer: int) -> bool:
    """Return whether `target` names the template `name` in this layer."""
    found = span(target, name)
    return found is not None and found[0] <= layer < found[1]


def _token(wanted: str, token: str) -> Span | None:
    if token == "*":
        if wanted == "*":
            return EVERYWHERE
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", wanted)
        return (int(match[1]), int(match[2] or match[1]) + 1) if match else None
    return EVERYWHERE if any(fnmatchcase(token, choice) for choice in wanted.split("|")) else None
