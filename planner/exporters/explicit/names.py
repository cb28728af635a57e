"""Python identifiers for the variables of one forward function."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping

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
    modules = ("F", "ops", "indexing", "ordered", "reductions", "windows", "torch", "nn")
    reserved = ("mesh", "self", "layer", *modules, "reshard", "fan_out", "recompute")
    taken: dict[str, str] = dict.fromkeys(reserved, "")
    for key in dict.fromkeys(keys):
        value, index = key
        several = key in readers
        # The only resharded form may take over the value's name; one of several may not share it.
        owner = f"{value}#{index}" if several else value
        tokens = [t for t in re.split(r"\W+", preferred.get(value, value)) if t]
        suffix = f"_for_{_clean(readers[key])}" if several else ""
        start = 2 if tokens[-1] in {"weight", "bias"} or tokens[-1].isdigit() else 1
        names = [_clean("_".join(tokens[-count:])) + suffix for count in range(start, len(tokens) + 1)]
        names += [f"{names[0]}_{number}" for number in range(2, len(taken) + 2)]
        chosen[key] = next(name for name in names if taken.get(name, owner) == owner)
        taken[chosen[key]] = owner
    return chosen


def _clean(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower()
    if not name or name[0].isdigit():
        # An index of a list, or an operator of the list itself.
        return f"item_{name}" if name else "value"
    # What shadows a builtin reads like it.
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) else name
