"""Fold a program's statements into classes along the module tree.

A module's statements that follow each other are one forward function of its class. Where others come between, as in a
module that runs twice, the class has a function for each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from .program import Key, ParameterUse, Program, Statement, child_of, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a child module's function."""

    body: Body

    @property
    def defines(self) -> tuple[Key, ...]:
        """Variables that the call gives."""
        return self.body.outputs

    @property
    def uses(self) -> tuple[Key, ...]:
        """Variables that the call takes."""
        return self.body.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A forward function of a class: its arguments, lines and results.

    Parameters
    ----------
    number
        Which of the module's functions it is, from 1.
    inputs
        What it takes; a parameter that lies in another module is one of these.
    """

    module: str
    number: int
    inputs: tuple[Key, ...]
    lines: tuple[Statement | Call, ...]
    outputs: tuple[Key, ...]

    def bodies(self) -> Iterator[Body]:
        """Yield the bodies of the children, innermost first, then this one."""
        for line in self.lines:
            if isinstance(line, Call):
                yield from line.body.bodies()
        yield self


def fold(program: Program, parameters: Collection[str], lists: Collection[str]) -> Body:
    """Return the body of a program's top module, or of the list whose layers alternate, with the children in it.

    Parameters
    ----------
    parameters
        Names of those that the program reads.
    lists
        Paths of modules that only hold others.
    """
    assembly = program.assembly
    top = assembly.templates[0] if assembly.period == 1 else assembly.path
    folding = _Folding(parameters, lists, Counter())
    return folding.body(top, program.statements, program.inputs, program.outputs)


@dataclass(frozen=True, slots=True)
class _Folding:
    parameters: Collection[str]
    lists: Collection[str]
    entered: Counter[str]

    def body(
        self, module: str, statements: tuple[Statement, ...], inputs: tuple[Key, ...], outputs: tuple[Key, ...]
    ) -> Body:
        self.entered[module] += 1
        number = self.entered[module]
        lines: list[Statement | Call] = []
        position = 0
        while position < len(statements):
            statement = statements[position]
            if statement.module == module:
                lines.append(statement)
                position += 1
                continue
            child = child_of(module, statement.module, self.lists)
            stop = position
            while stop < len(statements) and within(statements[stop].module, child):
                stop += 1
            lines.append(Call(body=self._child(child, statements[position:stop], statements[stop:], outputs)))
            position = stop
        return Body(module=module, number=number, inputs=inputs, lines=tuple(lines), outputs=outputs)

    def _child(
        self, child: str, inner: tuple[Statement, ...], later: tuple[Statement, ...], outputs: tuple[Key, ...]
    ) -> Body:
        made = dict.fromkeys(key for s in inner for key in s.defines)
        wanted = set(outputs) | set(uses(later))
        taken = dict.fromkeys(key for key in uses(inner) if key not in made)
        return self.body(
            child, inner,
            tuple(key for key in taken if not self.own(key, child)),
            tuple(key for key in made if key in wanted),
        )  # fmt: skip

    def own(self, key: Key, module: str) -> bool:
        """Return whether a variable is a parameter that lies in a module."""
        name, index = key
        return index == -1 and name in self.parameters and within(name, module)


def uses(statements: Iterable[Statement]) -> Iterator[Key]:
    """Yield the variables that statements read, parameters with them."""
    for statement in statements:
        for argument in statement.arguments:
            yield (argument.name, -1) if isinstance(argument, ParameterUse) else argument
