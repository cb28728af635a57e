"""Write a composite operator as its parts: a small graph of ordinary operators, each with its share of the strategy.

A part's factors have the composite's names, and a part gets the axes of those that it has. The gradients inside follow
from the same rules as anywhere else; nothing here knows about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ..core.graph import Attribute, Node, Value
from ..core.mesh import Axes
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Local, OpDef, Parts

Named = tuple[str, TensorMeta]
"""Name and meta of a value."""


@dataclass
class PartsOf:
    """Collects the parts of one composite node.

    Parameters
    ----------
    op, node, strategy
        The composite operator, its node and the node's strategy.
    """

    op: OpDef
    node: Node
    strategy: ShardStrategy
    made: list[tuple[Node, ShardStrategy]] = field(default_factory=list)

    def operand(self, name: str, dtype: str = "compute") -> Named | None:
        """Return an operand of the composite by its name there; None if it is optional and left out."""
        position = self.op.operand_names.index(name)
        if position >= len(self.node.operands):
            return None
        sizes = dict(self.node.rule.sizes)
        shape: list[Size] = []
        for dim in self.node.rule.operands[position]:
            size: Size = sizes[dim[0]] if len(dim) == 1 else prod(_integer(sizes[f]) for f in dim)
            shape.append(size)
        return self.node.operands[position], TensorMeta(tuple(shape), dtype)

    def add(
        self,
        op: OpDef,
        operands: Sequence[Named | None],
        *,
        role: str = "",
        attributes: Mapping[str, Attribute] | None = None,
        axes: Mapping[str, Axes] | None = None,
        carrying: Mapping[str, str] | None = None,
        kept: Mapping[str, tuple[int, ...]] | None = None,
        last: bool = False,
    ) -> Named:
        """Add a part and return its first result.

        Parameters
        ----------
        operands
            What it reads; None for optional ones at the end that are left out.
        role
            Ends the part's name; by default the operator's name.
        attributes
            The composite's by default.
        axes
            Axes of factors that are not the composite's.
        carrying
            Operand of the composite → operands of the part, one a term with spaces between, that carry its kept
            Partial. By default the part keeps nothing.
        kept
            What the part keeps, as in `ShardStrategy.kept`, where that is said outright.
        last
            True for the part that makes the composite's results.
        """
        present = [operand for operand in operands if operand is not None]
        metas = tuple(meta for _, meta in present)
        given = dict(self.node.attributes) if attributes is None else dict(attributes)
        results = op.infer(metas, given)
        name = self.node.name if last else f"{self.node.name}~{role or op.name}"
        values = tuple(Value(name=f"{name}:{i}" if i else name, meta=meta) for i, meta in enumerate(results))
        rule = op.rule(metas, results, given)
        part = Node(
            name=name, op=op.name, operands=tuple(n for n, _ in present), results=self.node.results if last else values,
            attributes=tuple(sorted(given.items())), rule=rule, module=self.node.module, origin=self.node.name,
        )  # fmt: skip
        factors = {f: a for f, a in self.strategy.factors if f in rule.factors} | dict(axes or {})
        own = ShardStrategy.of(factors, kept)
        if carrying:
            own = replace(own, kept=tuple((axis, self._moved(c, op, carrying)) for axis, c in self.strategy.kept))
        self.made.append((part, own))
        return values[0].name, values[0].meta

    def _moved(self, carriers: tuple[int, ...], op: OpDef, carrying: Mapping[str, str]) -> tuple[int, ...]:
        names = (self.op.operand_names[position] for position in carriers)
        return tuple(op.operand_names.index(carrier) for name in names for carrier in carrying[name].split())

    def finished(self) -> Parts:
        """Return all parts in order."""
        return tuple(self.made)


def no_line(local: Local) -> str:
    """Stand for the line of an operator that is always written by its parts."""
    raise AssertionError(f"{local.node.name} is written by its parts")


def _integer(size: Size) -> int:
    assert isinstance(size, int), "merged dims of composites have integer factors"
    return size
