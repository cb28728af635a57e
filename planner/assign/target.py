"""Which nodes, parameters and layers a decision's target names; the syntax is in `planner.core.plan`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from ..core.layers import Layers
from ..core.stage import plain

Span = tuple[int, int]
EVERYWHERE: Span = (0, 1 << 60)


@lru_cache(maxsize=65536)
def span(target: str, name: str) -> Span | None:
    """Return the iterations `start … stop-1` of the template `name` that `target` names; None if it names none.

    Layers of which some are named that do not follow each other in the template are not named: a run of layers is one
    piece.

    Parameters
    ----------
    target
        Tokens with dots or slashes between, matched against any run of consecutive tokens of the name.
    name
        Path of a node or parameter, with a token for the layer index (`core.layers`).
    """
    found = _found(target, name)
    return None if found is None else found[1]


@lru_cache(maxsize=65536)
def named(target: str, name: str) -> str:
    """Return what `target` names of the template `name`, which it names: the path up to the last token that matches."""
    found = _found(target, name)
    assert found is not None
    ends = [match.start() for match in re.finditer(r"[./]", name)] + [len(name)]
    return name[: ends[found[0] - 1]]


def _found(target: str, name: str) -> tuple[int, Span] | None:
    """Return how many tokens of the name there are up to the last that matches, and the iterations."""
    # What a stage has of its own is named like what the model has, unless a target names the stage.
    wanted, tokens = re.split(r"[./]", target), re.split(r"[./]", name if "@stage" in target else plain(name))
    for start in range(len(tokens) - len(wanted) + 1):
        spans = [_token(w, t) for w, t in zip(wanted, tokens[start:], strict=False)]
        found = [s for s in spans if s is not None]
        if len(found) == len(spans):
            return start + len(wanted), (max(s for s, _ in found), min(s for _, s in found))
    return None


def covers(target: str, name: str, layer: int) -> bool:
    """Return whether `target` names the template `name` in this iteration."""
    found = span(target, name)
    return found is not None and found[0] <= layer < found[1]


@lru_cache(maxsize=65536)
def _token(wanted: str, token: str) -> Span | None:
    layers = _layers_of(token)
    if layers is not None:
        named = Layers.parse(wanted)
        if wanted == "*" or named is None:
            return EVERYWHERE if wanted == "*" else None
        return layers.span(named)
    if any(fnmatchcase(token, choice) for choice in wanted.split("|")):
        return EVERYWHERE
    # A layer that stands for itself, beside runs of others.
    named, one = Layers.parse(wanted), Layers.parse(token)
    return EVERYWHERE if named and one and one.span(named) else None


def _layers_of(token: str) -> Layers | None:
    """Return the layers that a token of a template stands for; None for any other token."""
    if token == "*":
        return Layers(*EVERYWHERE)
    return Layers.parse(token) if "-" in token else None
