"""How a model, or each stage of one, is spread over ranks: all that `parallelize.py` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...core.assignment import TrainingGraph
from ...core.stage import at_stage
from .modules import TorchModule
from .pieces import Piece
from .sharding import Sharding
from .styles import Styles
from .tables import Table, tables, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a model, or each stage of one, is spread over ranks.

    Parameters
    ----------
    tables
        The styles.
    lists
        Paths of the lists of layers.
    everywhere
        Those of them of which every stage has layers.
    ties
        Module whose weight is that of another one of the same stage → the parameter.
    """

    sharding: Sharding
    tables: tuple[Table, ...]
    lists: tuple[str, ...]
    everywhere: frozenset[str]
    ties: Mapping[str, str]


def spread_of(
    training: TrainingGraph, sharding: Sharding, styles: list[Styles], modules: Mapping[str, TorchModule]
) -> Spread:
    """Return how a model in one piece is spread."""
    assemblies = training.assignment.assemblies
    lists = tuple(dict.fromkeys(run.path for run in assemblies[1:]))
    return Spread(
        sharding=sharding, tables=tuple(tables(assemblies, styles[0])), lists=lists, everywhere=frozenset(lists),
        ties={found.path: found.tied for found in modules.values() if found.tied},
    )  # fmt: skip


def spread_of_stages(pieces: tuple[Piece, ...], sharding: Sharding, styles: list[Styles]) -> Spread:
    """Return how each stage is spread; the same lines serve all of them."""
    found: list[Table] = []
    lists: list[frozenset[str]] = []
    ties: dict[str, str] = {}
    names: dict[str, str] = {}
    for piece, own in zip(pieces, styles, strict=True):
        assemblies = piece.planned.training.assignment.assemblies
        found += tables(assemblies, own)
        lists.append(frozenset(run.path for run in assemblies[1:]))
        away = piece.elsewhere
        ties |= {m.path: m.tied for m in piece.modules.values() if m.tied and f"{m.path}.weight" not in away}
        names |= {at_stage(tied, piece.number): local for local, tied in away.items()}
    return Spread(
        sharding=replace(sharding, names=names), tables=tuple(together(found)),
        lists=tuple(dict.fromkeys(path for own in lists for path in sorted(own))),
        everywhere=frozenset.intersection(*lists), ties=ties,
    )  # fmt: skip
