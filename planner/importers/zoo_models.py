"""The models that come along: `zoo/*.json`, the published `config.json` of each, or a module with its arguments.

`llama-tiny` is no published model: it is small enough to run on a laptop, and divides over 8 ranks in most ways.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files

from ..errors import ModelError
from .zoo_table import ZOO


def zoo_names() -> tuple[str, ...]:
    """Return the names of all models that come along, group by group."""
    return tuple(ZOO)


def zoo_text(name: str) -> str:
    """Return the config of a model that comes along, or its module with arguments.

    Raises
    ------
    ModelError
        `model.unknown-name`.
    """
    names = zoo_names()
    if name not in names:
        close = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"Known are {', '.join(names)}."
        shown = name if len(name) <= 60 else name[:57] + "…"
        raise ModelError(
            "model.unknown-name",
            f"There is no model named {shown!r}.",
            f"{hint} Or give the path of a config.json.",
            subject=shown,
        )
    return files(__package__).joinpath("zoo", f"{name}.json").read_text("utf-8")
