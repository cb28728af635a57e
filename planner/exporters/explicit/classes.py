"""Fold a program's statements into classes along the module tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...errors import ExportError
from .program import Key, Program, Statement, child_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a child module's forward."""

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
    """The forward function of one class: its arguments, lines and results."""

    module: str
    inputs: tuple[Key, ...]
    lines: tuple[Statement | Call, ...]
    outputs: tuple[Key, ...]

    def bodies(self) -> Iterator[Body]:
        """Yield the bodies of the children, innermost first, then this one."""
        for line in self.lines:
            if isinstance(line, Call):
                yield from line.body.bodies()
        yield self


def fold(program: Program) -> Body:
    """Return the class body of a program's top module, with its children in it."""
    top = f"{program.assembly.name}.*" if program.assembly.name else ""
    return _fold(top, program.statements, program.inputs, program.outputs)


def _fold(module: str, statements: tuple[Statement, ...], inputs: tuple[Key, ...], outputs: tuple[Key, ...]) -> Body:
    lines: list[Statement | Call] = []
    seen: set[str] = set()
    position = 0
    while position < len(statements):
        statement = statements[position]
        if statement.module == module:
            lines.append(statement)
            position += 1
            continue
        child = child_of(module, statement.module)
        if child in seen:
            raise ExportError(
                "export.module-interleaved", f"Module {child} is entered twice in one forward.",
                "Its operators can't be written as one forward function.", subject=child,
            )  # fmt: skip
        seen.add(child)
        stop = position
        while stop < len(statements) and _inside(statements[stop].module, child):
            stop += 1
        inner = statements[position:stop]
        made = dict.fromkeys(key for s in inner for key in s.defines)
        later = set(outputs) | set(uses(statements[stop:]))
        body = _fold(
            child, inner,
            tuple(dict.fromkeys(key for key in uses(inner) if key not in made)),
            tuple(key for key in made if key in later),
        )  # fmt: skip
        lines.append(Call(body=body))
        position = stop
    return Body(module=module, inputs=inputs, lines=tuple(lines), outputs=outputs)


def uses(statements: Iterable[Statement]) -> Iterator[Key]:
    """Yield the variables that statements read."""
    for statement in statements:
        yield from (a for a in statement.arguments if isinstance(a, tuple))


def _inside(module: str, ancestor: str) -> bool:
    return module == ancestor or module.startswith(f"{ancestor}.")
