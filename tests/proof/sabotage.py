"""Bundles with one collective removed, doubled, done over other axes, or in the place of another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeGuard

STEPS = {
    "AllGather", "AllReduce", "AllToAll", "Exchange", "Pad", "PadParts", "Permute", "ReduceParts", "ReduceScatter",
    "Slice", "Zero",
}  # fmt: skip
Edit = tuple[int, int, tuple[ast.expr, ...]]
LOCAL = {"Pad", "PadParts", "Slice", "Zero"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sabotage:
    """One change of a model's text.

    Parameters
    ----------
    place
        Class, variables and direction (`forward`, `backward`, or of an update) of the changed call.
    kind, axes
        The step that was changed.
    change
        `drop`, `double`, `over …` with the new axes, or `swap with …` with the step that it changes places with.
    step
        Source text of the step as it was.
    value
        The plan's value that it moves, from the comment above the call; empty for an update.
    source, edits
        The model's text, and what takes the places of steps: the position of a list in its tree, an index in it, and
        the new steps.
    """

    place: str
    kind: str
    axes: tuple[str, ...]
    change: str
    step: str
    value: str
    source: str
    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        """The changed model."""
        tree = ast.parse(self.source)
        # The last place first, since others of its list move.
        for position, index, replaced in sorted(self.edits, key=lambda edit: edit[:2], reverse=True):
            _at(tree, position).elts[index : index + 1] = replaced
        return ast.unparse(tree)

    def __str__(self) -> str:
        return f"{self.place}: {self.change} {self.step}"


def sabotages(text: str, mesh: tuple[str, ...]) -> Iterator[Sabotage]:
    """Yield every change of one step in a model's text."""
    tree = ast.parse(text)
    steps = list(_steps(tree))
    for number, (place, line, position, index, step) in enumerate(steps):
        assert isinstance(step, ast.Call)
        assert isinstance(step.func, ast.Name)
        axes, source = _axes(step), ast.unparse(step)
        changes = [(change, ((position, index, tuple(new)),)) for change, new in _changes(step, axes, mesh)]
        # With the next one of another kind, axes or dims, wherever in the model that is.
        other = next((s for s in steps[number + 1 :] if ast.unparse(s[-1]) != source), None)
        if other is not None:
            _, _, there, at, taken = other
            changes.append((f"swap with {ast.unparse(taken)}:", ((position, index, (taken,)), (there, at, (step,)))))
        for change, edits in changes:
            yield Sabotage(
                place=place, kind=step.func.id, axes=axes, change=change, step=source, source=text,
                value=_value(text, line), edits=edits,
            )  # fmt: skip


def _steps(tree: ast.Module) -> Iterator[tuple[str, int, int, int, ast.expr]]:
    """Yield every step with the name and the line of its place, the position of its list and its index in that."""
    for place, line, position in _lists(tree):
        for index, step in enumerate(_at(tree, position).elts):
            yield place, line, position, index, step


def _changes(step: ast.Call, axes: tuple[str, ...], mesh: tuple[str, ...]) -> Iterator[tuple[str, list[ast.expr]]]:
    yield "drop", []
    yield "double", [step, step]
    others = [(axis,) for axis in mesh] + [axes[::-1], mesh] if axes else []
    for other in dict.fromkeys(others):
        if other != axes:
            moved = deepcopy(step)
            for keyword in moved.keywords:
                if keyword.arg == "axes":
                    keyword.value = ast.Tuple([ast.Constant(axis) for axis in other], ast.Load())
            yield f"over {'·'.join(other)}:", [moved]


def _axes(step: ast.Call) -> tuple[str, ...]:
    """Return the axes of a step; a step between two layouts may have none of its own."""
    values = [keyword.value for keyword in step.keywords if keyword.arg == "axes"]
    return tuple(ast.literal_eval(values[0])) if values else ()


def _value(text: str, line: int) -> str:
    """Return the value that the comment above a line names."""
    for above in reversed(text.splitlines()[: line - 1]):
        if not above.strip().startswith("#"):
            break
        if found := re.match(r"\s*# (?! )(\S+), .*\[", above):
            return found[1]
    return ""


def _lists(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Yield, for every list that holds steps, a name, its line and its position among the tree's nodes."""
    positions = {id(node): i for i, node in enumerate(ast.walk(tree))}
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for line in (node for node in ast.walk(owner) if isinstance(node, ast.Assign)):
            call = line.value
            variables = ", ".join(ast.unparse(target) for target in line.targets)
            for keyword in (k for inner in ast.walk(call) if _moves(inner) for k in inner.keywords):
                for node in ast.walk(keyword.value):
                    if isinstance(node, ast.List) and any(_is_step(element) for element in node.elts):
                        yield f"{owner.name}.{variables} {keyword.arg}", line.lineno, positions[id(node)]


def _moves(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether this is a call that steps are given to."""
    names = {"reshard", "fan_out", "Update"}
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_step(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in STEPS


def _at(tree: ast.Module, position: int) -> ast.List:
    node = next(node for i, node in enumerate(ast.walk(tree)) if i == position)
    assert isinstance(node, ast.List)
    return node
