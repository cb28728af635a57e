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
    """A call of a child module's function, or of a function of the same class that is a segment.

    Parameters
    ----------
    again
        Whether only what it takes is kept, and it is called again in backward.
    """

    body: Body
    again: bool = False

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
    segment
        Whether it is a part of another function of its module, which is called again in backward.
    again
        Whether all of it is one segment, so that whoever calls it calls it again in backward.
    """

    module: str
    number: int
    inputs: tuple[Key, ...]
    lines: tuple[Statement | Call, ...]
    outputs: tuple[Key, ...]
    segment: bool = False
    again: bool = False

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
    first = program.statements[0].segment
    # Who runs the layers of a period calls each by itself.
    whole = assembly.period == 1 and assembly.name and all(s.segment == first for s in program.statements)
    return folding.body(top, program.statements, program.inputs, program.outputs, segment=first if whole else "")


@dataclass(frozen=True, slots=True)
class _Folding:
    parameters: Collection[str]
    lists: Collection[str]
    entered: Counter[str]

    def body(
        self,
        module: str,
        statements: tuple[Statement, ...],
        inputs: tuple[Key, ...],
        outputs: tuple[Key, ...],
        *,
        segment: str = "",
        part: bool = False,
    ) -> Body:
        """Return a function of a module.

        Parameters
        ----------
        segment
            The segment that all of it is in.
        part
            Whether it is a part of another function of the module.
        """
        self.entered[module] += 1
        number = self.entered[module]
        lines: list[Statement | Call] = []
        position = 0
        while position < len(statements):
            statement = statements[position]
            stop, child = self._reach(module, statements, position, segment)
            if stop == position:
                lines.append(statement)
                position += 1
                continue
            inner, later = statements[position:stop], statements[stop:]
            whole = bool(statement.segment != segment and all(s.segment == statement.segment for s in inner))
            body = self._child(child, inner, later, outputs, segment=statement.segment if whole else segment,
                               part=child == module)  # fmt: skip
            lines.append(Call(body=body, again=whole))
            position = stop
        return Body(
            module=module, number=number, inputs=inputs, lines=tuple(lines), outputs=outputs, segment=part,
            again=bool(segment),
        )  # fmt: skip

    def _reach(self, module: str, statements: tuple[Statement, ...], start: int, segment: str) -> tuple[int, str]:
        """Return how far a call that begins with a statement reaches, and of which class; `start` if it is none.

        A call runs a child up to where others come between, or up to a segment that goes on after the child; such a
        segment, and one in the class itself, is a call of a function of the class.
        """
        child = child_of(module, statements[start].module, self.lists) if statements[start].module != module else ""
        end = _end(statements, start)
        fresh = statements[start].segment not in {"", segment}
        if fresh and not (child and all(within(s.module, child) for s in statements[start:end])):
            return end, module
        stop = start
        while child and stop < len(statements) and within(statements[stop].module, child):
            rest = statements[stop : _end(statements, stop)]
            if statements[stop].segment not in {"", segment} and not all(within(s.module, child) for s in rest):
                break
            stop += 1
        return stop, child

    def _child(
        self, child: str, inner: tuple[Statement, ...], later: tuple[Statement, ...], outputs: tuple[Key, ...], *,
        segment: str, part: bool,
    ) -> Body:  # fmt: skip
        made = dict.fromkeys(key for s in inner for key in s.defines)
        wanted = set(outputs) | set(uses(later))
        taken = dict.fromkeys(key for key in uses(inner) if key not in made)
        return self.body(
            child, inner,
            tuple(key for key in taken if not self.own(key, child)),
            tuple(key for key in made if key in wanted),
            segment=segment, part=part,
        )  # fmt: skip

    def own(self, key: Key, module: str) -> bool:
        """Return whether a variable is a parameter that lies in a module."""
        name, index = key
        return index == -1 and name in self.parameters and within(name, module)


def _end(statements: tuple[Statement, ...], start: int) -> int:
    """Return where the segment ends that a statement is in."""
    stop = start
    while stop < len(statements) and statements[stop].segment == statements[start].segment:
        stop += 1
    return stop


def uses(statements: Iterable[Statement]) -> Iterator[Key]:
    """Yield the variables that statements read, parameters with them."""
    for statement in statements:
        for argument in statement.arguments:
            yield (argument.name, -1) if isinstance(argument, ParameterUse) else argument
