"""MindSpore's `Layout(matrix, aliases)`: `Layout((2, 2, 2), ("dp", "sp", "mp"))("dp", ("sp", "mp"), "None")`.

Per tensor dim an alias, a tuple of aliases (the first one major), or `"None"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.refine import Matrix, Refinement
from ..errors import LayoutError
from .device_layout import DeviceLayout
from .literal import Term, parse

SYNTAX = "mindspore.layout-syntax"
HINT = 'Write e.g. Layout((2, 4), ("dp", "tp"))("dp", "None").'
ON_CARD = "interleaved_parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasLayout:
    """A layout by aliases of the dims of a device matrix.

    Raises
    ------
    LayoutError
        `mindspore.aliases` for bad aliases, `mindspore.alias-unknown`, `mindspore.alias-reused`,
        `mindspore.interleaved`.
    """

    matrix: Matrix
    aliases: Axes
    dims: tuple[Axes, ...]

    def __post_init__(self) -> None:
        if len(self.aliases) != len(self.matrix):
            raise _aliases(f"There are {len(self.aliases)} aliases for {len(self.matrix)} matrix dims.",
                           "Give one alias a matrix dim.")  # fmt: skip
        for alias in self.aliases:
            if not alias.isidentifier() or alias == "None":
                raise _aliases(f"{alias!r} is not an alias.", "Use letters, digits and _, but not None.", alias)
            if self.aliases.count(alias) > 1:
                raise _aliases(f"The alias {alias!r} is given twice.", "Give each once.", alias)
        if ON_CARD in self.aliases[:-1]:
            raise _aliases(f"{ON_CARD!r} is not the last alias.", "Put it last.", ON_CARD)
        used = [alias for axes in self.dims for alias in axes]
        for alias in used:
            if alias not in self.aliases:
                raise LayoutError(
                    "mindspore.alias-unknown", f"There is no alias {alias!r}.",
                    f"Use one of: {', '.join(self.aliases)}, or \"None\".", subject=alias,
                )  # fmt: skip
            if used.count(alias) > 1:
                raise LayoutError(
                    "mindspore.alias-reused", f"The alias {alias!r} is used {used.count(alias)} times in one tensor.",
                    "Use each at most once.", subject=alias,
                )  # fmt: skip
        if ON_CARD in self.aliases:
            raise LayoutError(
                "mindspore.interleaved",
                f"{ON_CARD!r} cuts a tensor on each device, to hide communication; it is no sharding over devices.",
                "Leave it out.",
                subject=ON_CARD,
            )

    def triple(self, shape: tuple[int, ...]) -> DeviceLayout:
        """Return device matrix, tensor map and shape."""
        last = len(self.matrix) - 1
        places = {alias: last - position for position, alias in enumerate(self.aliases)}
        return DeviceLayout(
            matrix=self.matrix,
            tensor_map=tuple(tuple(places[alias] for alias in axes) for axes in self.dims),
            shape=shape,
        )

    def named(self) -> tuple[DeviceMesh, Layout]:
        """Return the matrix as a mesh with the aliases as axes, and the layout on it."""
        return DeviceMesh(tuple(zip(self.aliases, self.matrix, strict=True))), Layout(self.dims)

    def on(self, refinement: Refinement) -> Layout:
        """Return the layout on a mesh that refines the matrix."""
        return Layout(
            tuple(
                tuple(axis for alias in axes for axis in refinement.axes(self.matrix, self.aliases.index(alias)))
                for axes in self.dims
            )
        )

    def __str__(self) -> str:
        dims = ", ".join(_entry(axes) for axes in self.dims)
        return f"Layout({_tuple(map(str, self.matrix))}, {_tuple(map(_quoted, self.aliases))})({dims})"


def of_layout(layout: Layout, mesh: DeviceMesh) -> AliasLayout:
    """Return a layout with the mesh's axes as aliases.

    Raises
    ------
    LayoutError
        `surface.partial-inexpressible`.
    """
    shape = tuple(mesh.size_of(axes) for axes in layout.dims)
    DeviceLayout.of(layout, shape, mesh)
    return AliasLayout(matrix=tuple(size for _, size in mesh.axes), aliases=mesh.names, dims=layout.dims)


def read(text: str) -> AliasLayout:
    """Read a layout as Python writes it.

    Raises
    ------
    LayoutError
        `mindspore.layout-syntax`, with its place, besides those of the class.
    """
    term = parse(text, "a MindSpore layout", SYNTAX, HINT)
    made = term.items[0] if term.kind == "call" else term
    if made.called != "Layout" or len(made.items) != 3 or term is made:
        raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not Layout(matrix, aliases)(dims).", HINT)
    matrix, aliases = (_members(part, what) for part, what in zip(made.items[1:], ("matrix", "aliases"), strict=True))
    sizes = []
    for item in matrix:
        if item.number is None or item.number < 1:
            raise item.refusal(
                "mindspore.matrix", f"{str(item)!r} is no size of a device matrix.", "Write e.g. (2, 4)."
            )
        sizes.append(item.number)
    return AliasLayout(
        matrix=tuple(sizes),
        aliases=tuple(map(_alias, aliases)),
        dims=tuple(_dim(item) for item in term.items[1:]),
    )


def _dim(term: Term) -> Axes:
    if term.kind == "sequence":
        return tuple(map(_alias, term.items))
    return () if term.word == "None" else (_alias(term),)


def _members(term: Term, what: str) -> tuple[Term, ...]:
    if term.kind == "sequence":
        return term.items
    # Python takes ("dp") for "dp"; MindSpore wants ("dp",).
    raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is no tuple of the {what}.", 'Write e.g. (2,) or ("dp",).')


def _alias(term: Term) -> str:
    if term.kind != "text":
        raise term.refusal("mindspore.aliases", f"{str(term)[:60]!r} is not an alias.", "Write it in quotes.")
    return term.word


def _aliases(message: str, hint: str, subject: str = "") -> LayoutError:
    return LayoutError("mindspore.aliases", message, hint, subject=subject)


def _entry(axes: Axes) -> str:
    return '"None"' if not axes else _quoted(axes[0]) if len(axes) == 1 else _tuple(map(_quoted, axes))


def _quoted(alias: str) -> str:
    return f'"{alias}"'


def _tuple(parts: Iterable[str]) -> str:
    items = list(parts)
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
