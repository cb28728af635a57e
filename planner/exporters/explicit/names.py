"""Python identifiers for the variables of one forward function."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from .program import Key


def identifiers(keys: Iterable[Key], readers: Mapping[Key, str], preferred: Mapping[str, str]) -> dict[Key, str]:
    """Return a distinct, speaking identifier for every variable.

    A value's only resharded form takes over its name; where there are several, each is named after a reader.

    Parameters
    ----------
    readers
        For a resharded form that is one of several, the reader that it is named after.
    preferred
        Names for values whose own does not say what they are.
    """
    chosen: dict[Key, str] = {}
    reserved = ("mesh", "self", "layer", "F", "ops", "torch", "nn", "reshard", "fan_out")
    taken: dict[str, object] = dict.fromkeys(reserved, "")
    for key in dict.fromkeys(keys):
        value, _ = key
        tokens = [t for t in re.split(r"\W+", preferred.get(value, value)) if t]
        suffix = f"_for_{_clean(readers[key])}" if key in readers else ""
        # One of several forms has its name for itself; a value and its only form share one.
        owner: object = key if key in readers else value
        start = 2 if tokens[-1] in {"weight", "bias"} or tokens[-1].isdigit() else 1
        for length in range(start, len(tokens) + 1):
            name = _clean("_".join(tokens[-length:])) + suffix
            if taken.get(name, owner) == owner or length == len(tokens):
                break
        chosen[key] = next(n for n in _numbered(name) if taken.get(n, owner) == owner)
        taken[chosen[key]] = owner
    return chosen


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{i}" for i in count(2))


def _clean(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower()
    return f"{name}_" if keyword.iskeyword(name) or not name or name[0].isdigit() else name
