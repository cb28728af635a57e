"""From a strategy of counts to decisions on factors: which axes of one mesh, split where need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.graph import Node
from ..core.mesh import Axes, DeviceMesh
from ..core.refine import Refinement, refine
from ..core.symbol import evaluate
from ..errors import LayoutError
from .counts import Counts, Side, place
from .literal import Term, parse

SYNTAX = "mindspore.strategy-syntax"


def decide(
    nodes: Sequence[Node], counts: object, symbols: frozenset[tuple[str, int]], mesh: DeviceMesh, *,
    side: Side | None = None, names: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Refinement, dict[str, Axes]]:  # fmt: skip
    """Return the mesh on which a strategy can be written, and the axes of every factor on it.

    Parameters
    ----------
    nodes
        The operators that it is for; it must mean the same for all of them.
    symbols
        Values of the symbolic sizes.
    side
        Where the repetition goes; see `place`.
    names
        Operand names by operator, for messages.

    Raises
    ------
    LayoutError
        As `place`; `mindspore.strategy-differs` where two operators would get different axes; `mesh.no-refinement`.
    """
    placed = []
    for node in nodes:
        sizes = {factor: evaluate(size, symbols) for factor, size in node.rule.sizes}
        operands = (names or {}).get(node.op, ())
        placed.append(
            place(
                node.rule, counts, sizes, mesh.device_count, subject=node.name, side=side, op=node.op, names=operands
            )
        )  # fmt: skip
    finer = refine(mesh, *dict.fromkeys(one.matrix for one in placed))
    found: dict[str, tuple[str, Axes]] = {}
    for node, one in zip(nodes, placed, strict=True):
        for position, factor in enumerate(one.factors):
            axes = finer.axes(one.matrix, position)
            if factor and found.setdefault(factor, (node.name, axes))[1] != axes:
                other, before = found[factor]
                raise LayoutError(
                    "mindspore.strategy-differs",
                    f"The strategy puts factor {factor} of {node.name} over {'·'.join(axes) or 'nothing'}, and that of "
                    f"{other} over {'·'.join(before) or 'nothing'}.",
                    "Give them strategies one by one.",
                )
    return finer, {factor: axes for factor, (_, axes) in found.items()}


def read_counts(text: str) -> Counts:
    """Read `((2, 4), (4, 1))`.

    Raises
    ------
    LayoutError
        `mindspore.strategy-syntax`, with its place.
    """
    term = parse(text, "a strategy", SYNTAX, "Write one tuple an input, e.g. ((2, 4), (4, 1)).")
    return tuple(tuple(map(_number, _members(item))) for item in _members(term))


def _members(term: Term) -> tuple[Term, ...]:
    if term.kind != "sequence":
        raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not a tuple.", "Write a comma behind a single entry: (2,).")
    return term.items


def _number(term: Term) -> int:
    if term.number is None:
        raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not a number.", "Write whole numbers.")
    return term.number
