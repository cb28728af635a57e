"""Builds a `Block` node by node: metas and rules come from `OPS`, names follow `core.graph`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..core.graph import Attribute, Block, Node, Parameter, Repeat, Value
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..ops import OPS

NOTHING: Mapping[str, Attribute] = MappingProxyType({})


@dataclass(slots=True)
class BlockBuilder:
    """A block under construction; methods return the names of what they made, to be operands."""

    _inputs: list[Value] = field(default_factory=list)
    _parameters: list[Parameter] = field(default_factory=list)
    _body: list[Node | Repeat] = field(default_factory=list)
    _metas: dict[str, TensorMeta] = field(default_factory=dict)

    def input(self, name: str, meta: TensorMeta) -> str:
        """Add an input of the block."""
        self._inputs.append(Value(name=name, meta=meta))
        self._metas[name] = meta
        return name

    def parameter(self, name: str, shape: tuple[Size, ...], initial: str = "normal", *, dtype: str = "compute") -> str:
        """Add a parameter, in the plan's compute type unless it has one of its own."""
        meta = TensorMeta(shape, dtype)
        self._parameters.append(Parameter(name=name, meta=meta, initial=initial))
        self._metas[name] = meta
        return name

    def meta(self, name: str) -> TensorMeta:
        """Return shape and element type of what an earlier call made."""
        return self._metas[name]

    def maker(self, name: str) -> Node | None:
        """Return the operator that makes a value; None for what is given."""
        return next((n for n in self._body if isinstance(n, Node) and name in {v.name for v in n.results}), None)

    def node(
        self,
        name: str,
        op: str,
        *operands: str,
        module: str | None = None,
        attributes: Mapping[str, Attribute] = NOTHING,
    ) -> tuple[str, ...]:
        """Add an operator and return its results.

        Parameters
        ----------
        name
            Module path, plus `/role` where the module has several operators.
        op
            Key of the table `OPS`.
        operands
            Inputs, parameters and earlier results.
        module
            Where it is not the part of `name` before the `/`.
        """
        definition = OPS[op]
        metas = tuple(self._metas[operand] for operand in operands)
        results = definition.infer(metas, attributes)
        values = tuple(
            Value(name=name if index == 0 else f"{name}:{index}", meta=meta) for index, meta in enumerate(results)
        )
        self._body.append(
            Node(
                name=name,
                op=op,
                operands=operands,
                results=values,
                attributes=tuple(sorted(attributes.items())),
                rule=definition.rule(metas, results, attributes),
                module=name.partition("/")[0] if module is None else module,
            )
        )
        self._metas |= {value.name: value.meta for value in values}
        return tuple(value.name for value in values)

    def fresh(self, name: str) -> str:
        """Return a name for an operator that no value has yet."""
        found, number = name, 2
        while found in self._metas:
            found, number = f"{name}_{number}", number + 1
        return found

    def mark(self) -> int:
        """Return how far the block has come, for `rewind`."""
        return len(self._body)

    def rewind(self, mark: int) -> None:
        """Take back the operators that were added since a mark."""
        for item in self._body[mark:]:
            for value in item.results:
                del self._metas[value.name]
        del self._body[mark:]

    def repeat(self, name: str, count: int, block: Block, *operands: str) -> tuple[str, ...]:
        """Add a repeated block and return its results, which have the metas of what is carried."""
        values = tuple(
            Value(name=name if index == 0 else f"{name}:{index}", meta=self._metas[operand])
            for index, operand in enumerate(operands[: len(block.outputs)])
        )
        self._body.append(Repeat(name=name, count=count, block=block, operands=operands, results=values))
        self._metas |= {value.name: value.meta for value in values}
        return tuple(value.name for value in values)

    def block(self, *outputs: str) -> Block:
        """Return the finished block."""
        return Block(
            inputs=tuple(self._inputs),
            parameters=tuple(self._parameters),
            body=tuple(self._body),
            outputs=outputs,
        )
