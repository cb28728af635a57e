"""Puts a pattern's calls in the place of those that it matches, from the end of the program to its start.

From the end, so that a pattern takes all that belongs to it before a part of it is seen alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Member, Program, Ref, reads
from .calls import Calls, base


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What stands in the place of a call and of the calls inside it.

    Parameters
    ----------
    calls
        In order; the last one bears the name of the call that it replaces, unless `renamed` says who does.
    inner
        Names of the calls that the pattern covers besides the root.
    renamed
        Results that others bear now: old name → new name.
    shapes
        Weights that get another shape with the same elements in the same order.
    """

    calls: tuple[Call, ...]
    inner: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One way of writing something that has a name.

    Parameters
    ----------
    roots
        Operators, without overload, that its last call may be of.
    rewrite
        Program and such a call → what replaces it; None where the pattern does not fit.
    """

    name: str
    roots: frozenset[str]
    rewrite: Callable[[Calls, Call], Replacement | None]


def apply(pattern: Pattern, program: Program) -> Program:
    """Return the program with a pattern put in wherever it fits."""
    if not any(base(call.target) in pattern.roots for call in program.calls):
        return program
    calls = Calls(program)
    made: dict[str, Replacement] = {}
    taken: set[str] = set()
    for root in reversed(program.calls):
        if root.name in taken or base(root.target) not in pattern.roots:
            continue
        replacement = pattern.rewrite(calls, root)
        if replacement is not None and taken.isdisjoint(replacement.inner):
            made[root.name] = replacement
            taken.update(replacement.inner)
    if not made:
        return program
    listed = _once([c for call in program.calls for c in (made[call.name].calls if call.name in made else (call,))])
    renamed = {old: new for r in made.values() for old, new in r.renamed.items()}
    shapes = {name: shape for r in made.values() for name, shape in r.shapes.items()}
    weights = tuple(
        replace(w, meta=TensorMeta(shapes[w.name], w.meta.dtype)) if w.name in shapes else w for w in program.weights
    )
    return without_dead(rename(replace(program, calls=tuple(listed), weights=weights), renamed))


def _once(calls: list[Call]) -> list[Call]:
    """Return calls without those that several replacements made alike."""
    seen: dict[str, Call] = {}
    for call in calls:
        assert seen.setdefault(call.name, call) == call, f"two calls are named {call.name}"
    return list(seen.values())


def rename(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with some values read under other names; a new name may be renamed too."""
    if not names:
        return program

    def now(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    def inside(argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(now(argument.name))
        return tuple(map(inside, argument)) if isinstance(argument, tuple) else argument

    calls = tuple(
        replace(
            call, arguments=tuple(map(inside, call.arguments)),
            keywords=tuple((key, inside(value)) for key, value in call.keywords),
        ) if any(name in names for name in reads(call)) else call
        for call in program.calls
    )  # fmt: skip
    return replace(program, calls=calls, outputs=tuple(map(now, program.outputs)), logits=now(program.logits))


def without_dead(program: Program) -> Program:
    """Return the program without calls whose results nobody reads."""
    wanted = {*program.outputs, program.logits}
    kept = []
    for call in reversed(program.calls):
        if any(call.result(index) in wanted for index in range(len(call.results))):
            kept.append(call)
            wanted.update(reads(call))
    return replace(program, calls=tuple(reversed(kept)))


def fused(
    root: Call, name: str, operands: tuple[Argument, ...], attributes: tuple[tuple[str, Argument], ...] = (),
    *, meta: TensorMeta | None = None, stack: tuple[Member, ...] | None = None,
) -> Call:  # fmt: skip
    """Return the call that bears the root's name."""
    return replace(
        root, target=f"fused.{name}", arguments=operands, keywords=tuple(sorted(attributes)),
        results=root.results if meta is None else (meta,), stack=root.stack if stack is None else stack,
    )  # fmt: skip


def beside(
    root: Call, role: str, target: str, arguments: tuple[Argument, ...], *metas: TensorMeta,
    keywords: tuple[tuple[str, Argument], ...] = (), stack: tuple[Member, ...] | None = None,
) -> Call:  # fmt: skip
    """Return a further call, named after the root and what it does."""
    return replace(
        root, name=f"{root.name}_{role}", target=target, arguments=arguments, keywords=keywords, results=metas,
        stack=root.stack if stack is None else stack,
    )  # fmt: skip
