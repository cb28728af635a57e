"""Tables of styles: one for what lies outside of the layers, one for each run of layers that are sharded alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ...core.assignment import Assembly
from ...core.layers import Layers
from .styles import Styles


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The styles of the modules below a layer, or of those outside of the layers.

    Parameters
    ----------
    path
        Path of the list of layers; empty for what lies outside.
    layers
        Which of the list.
    period
        Number of layers after which they repeat.
    styles
        Path below the layer → style; where layers alternate, with the layer's place in front.
    """

    path: str
    layers: Layers
    period: int
    styles: Mapping[str, str]

    @property
    def constant(self) -> str:
        """Name of the table in the script."""
        if not self.path:
            return "MODEL_PLAN"
        last = f"-{self.layers.last}" if self.layers.count > 1 else ""
        words = f"{self.path}.{self.layers.first}{last}".replace(".", "_").replace("-", "_")
        return f"{words.upper()}_PLAN"


def tables(assemblies: tuple[Assembly, ...], styles: Styles) -> Iterator[Table]:
    """Yield the tables of a model or stage, without empty ones."""
    for index, found in sorted(styles.scopes.items()):
        run = assemblies[index]
        if found:
            yield Table(
                path=run.path if run.name else "", layers=run.layers if run.name else Layers(0, 1),
                period=run.period if run.name else 1,
                styles={_inner(path, run): str(style) for path, style in found.items()},
            )  # fmt: skip


def together(found: Iterable[Table]) -> list[Table]:
    """Return the tables of all stages as those of one model."""
    joined: list[Table] = []
    for table in sorted(found, key=lambda table: (table.path, table.layers.first)):
        last = joined[-1] if joined else None
        if last is not None and not table.path and not last.path:
            joined[-1] = replace(last, styles={**last.styles, **table.styles})
        elif last is not None and _follows(last, table):
            count = last.layers.count + table.layers.count
            joined[-1] = replace(last, layers=replace(last.layers, count=count))
        else:
            joined.append(table)
    return joined


def _follows(last: Table, table: Table) -> bool:
    alike = last.path == table.path and last.period == table.period and last.styles == table.styles
    return alike and table.layers.first == last.layers.last + 1 and {last.layers.step, table.layers.step} == {1}


def _inner(path: str, run: Assembly) -> str:
    """Return a module's path below the layer; of an iteration of several layers, with the layer's place in front."""
    if not run.name:
        return path
    place, top = next((i, top) for i, top in enumerate(run.templates) if path == top or path.startswith(f"{top}."))
    inner = path[len(top) + 1 :]
    return f"{place}.{inner}" if run.period > 1 else inner
