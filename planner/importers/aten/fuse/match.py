"""Trees that say what a group of calls looks like, and the search for them in a program.

```text
mul(X, call("rsqrt", add(mean(square(X)), EPS)))      matched at a call, from its operands down
```

Casts from one floating type to another are looked through, since they only round. A value that a tree names twice must
be one value. `found` holds what the names stand for, and the calls inside, which nobody else may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import isclose

from ..program import Argument, Call, Ref
from .calls import Calls, base


@dataclass(frozen=True, slots=True)
class Found:
    """What the names of a tree stand for, and the names of the calls that it covers."""

    values: Mapping[str, Argument] = field(default_factory=dict)
    inner: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Argument:
        return self.values[name]

    def number(self, name: str) -> float:
        """Return a number that the tree named."""
        value = self.values[name]
        assert isinstance(value, int | float)
        return value

    def bind(self, name: str, value: Argument) -> Found | None:
        """Return the match with a name bound; None if it stands for something else already."""
        if name in self.values:
            return self if self.values[name] == value else None
        return Found({**self.values, name: value}, self.inner)


Tree = Callable[[Calls, Argument, Found], Iterator[Found]]
"""Program, argument and what was found so far → every way in which the argument fits."""


def value(name: str) -> Tree:
    """Match any value, before casts."""

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        bare = calls.uncast(argument)
        if isinstance(bare, Ref) and (bound := found.bind(name, bare)):
            yield bound

    return fit


def number(name: str) -> Tree:
    """Match any number."""

    def fit(_: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        if isinstance(argument, int | float) and not isinstance(argument, bool) and (b := found.bind(name, argument)):
            yield b

    return fit


def equal(wanted: Argument) -> Tree:
    """Match one number, as precisely as code writes it, or one other literal."""

    def fit(_: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        if isinstance(wanted, int | float) and isinstance(argument, int | float):
            if isclose(argument, wanted, rel_tol=1e-9):
                yield found
        elif argument == wanted:
            yield found

    return fit


def either(*trees: Tree) -> Tree:
    """Match one of several trees."""

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        for tree in trees:
            yield from tree(calls, argument, found)

    return fit


def call(
    names: str, *operands: Tree | float | bool | None, commutes: bool = False, bind: str = "",
    allow: tuple[str, ...] = (),
) -> Tree:  # fmt: skip
    """Match a call of an operator.

    Parameters
    ----------
    names
        Operators without overload, with blanks between.
    operands
        A tree for each argument, or the number that it is.
    commutes
        Whether the two operands may come in any order.
    bind
        Name for the result of the call itself.
    allow
        Keywords that do not matter.
    """
    wanted = frozenset(names.split())
    trees = tuple(o if callable(o) else equal(o) for o in operands)
    orders = list(permutations(trees)) if commutes else [trees]

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        bare = calls.uncast(argument)
        made = calls.maker(bare)
        if made is None or base(made.target) not in wanted or len(made.arguments) != len(trees):
            return
        if any(key not in allow for key, _ in made.keywords):
            return
        bound = found.bind(bind, bare) if bind else found
        if bound is None:
            return
        inside = Found(bound.values, (*bound.inner, made.name))
        for order in orders:
            yield from _all(order, calls, made.arguments, inside)

    return fit


def listed(*trees: Tree) -> Tree:
    """Match a tuple of so many values."""

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        if isinstance(argument, tuple) and len(argument) == len(trees):
            yield from _all(trees, calls, argument, found)

    return fit


def part(name: str, place: Callable[[Calls, Argument], tuple[Argument, Argument] | None], wanted: Argument) -> Tree:
    """Match a part of a value.

    Parameters
    ----------
    name
        For the value that it is a part of.
    place
        Program and the part → the value and the place in it; None for what is no part.
    wanted
        The place that this must be.
    """

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        bare = calls.uncast(argument)
        placed = place(calls, bare)
        if placed is None or placed[1] != wanted:
            return
        bound = found.bind(name, calls.uncast(placed[0]))
        made = calls.maker(bare)
        if bound is not None and made is not None:
            yield Found(bound.values, (*bound.inner, made.name))

    return fit


def _all(trees: tuple[Tree, ...], calls: Calls, arguments: tuple[Argument, ...], found: Found) -> Iterator[Found]:
    if not trees:
        yield found
        return
    for first in trees[0](calls, arguments[0], found):
        yield from _all(trees[1:], calls, arguments[1:], first)


def last_dim(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
    """Match the number −1, or a tuple of it alone; code counts the last dim from the end."""
    del calls
    if argument in (-1, (-1,)):
        yield found


def mul(x: Tree | float, y: Tree | float) -> Tree:
    """Match a product, the operands in any order."""
    return call("mul", x, y, commutes=True)


def add(x: Tree | float, y: Tree | float) -> Tree:
    """Match a sum, the operands in any order."""
    return call("add", x, y, commutes=True)


def square(x: Tree) -> Tree:
    """Match the square of a value, as code writes it."""
    return either(call("pow", x, 2), call("square", x), call("mul", x, x))


def first(tree: Tree, calls: Calls, root: Call, holds: Callable[[Found], bool] = lambda _: True) -> Found | None:
    """Return the first way in which a tree fits a call, such that nobody outside reads what is inside.

    Parameters
    ----------
    holds
        What else must hold, e.g. of shapes.
    """
    for found in tree(calls, Ref(root.name), Found()):
        inside = Found(found.values, tuple(name for name in found.inner if name != root.name))
        if covered(calls, root, inside.inner) and holds(inside):
            return inside
    return None


def covered(calls: Calls, root: Call, inner: tuple[str, ...]) -> bool:
    """Whether what the calls inside make, casts of it included, is read by them and the root alone."""
    inside = {root.name, *inner}
    return all(_read_inside(calls, calls.made[name], inside) for name in inside - {root.name})


def _read_inside(calls: Calls, made: Call, inside: set[str]) -> bool:
    for index in range(len(made.results)):
        for reader in calls.readers.get(made.result(index), ()):
            if reader in inside:
                continue
            cast = calls.made.get(reader)
            if cast is None or not calls.is_cast(cast) or not _read_inside(calls, cast, inside):
                return False
    return True


__all__ = [
    "Found", "Tree", "add", "call", "covered", "either", "equal", "first", "last_dim", "listed", "mul",
    "number", "part", "square", "value",
]  # fmt: skip
