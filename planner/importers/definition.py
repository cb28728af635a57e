"""The shape of an entry in the table `IMPORTERS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.graph import ModelGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class ImporterDef:
    """One kind of model source.

    Parameters
    ----------
    load
        Content and name → graph. The graph's `source.content` loads again to an equal graph.
    """

    name: str
    summary: str
    load: Callable[[str, str], ModelGraph]
