"""What a class holds: the modules and parameters below it, as the assignments of its `__init__`, and paths to them.

A module with code is a class, one with parameters alone `Weights`, one that only holds others a list or a dict, so that
state dicts have the names of the model. A class whose own parameters lie beside its modules is itself `Weights`.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Made:
    """An expression that makes modules of classes.

    Parameters
    ----------
    count
        How many modules of a list it makes.
    several
        Whether it is an iterable of them, and no module.
    numbered
        The same as entries of a dict by their numbers, where that is shorter than a zip.
    """

    text: str
    count: int = 1
    several: bool = False
    numbered: str = ""


@dataclass(slots=True)
class Member:
    """A module below a class.

    Parameters
    ----------
    made
        What makes it, where it is a class; for the first of a run of layers, what makes all of them.
    weights
        Arguments of its `Weights`; empty for a module without parameters of its own.
    updates
        Parameters of its own whose update is among these arguments, in their order.
    """

    made: Made | None = None
    weights: str = ""
    updates: tuple[str, ...] = ()
    children: dict[str, Member] = field(default_factory=dict)

    def at(self, path: str) -> Member:
        """Return the member at a path below this one, made if it is new."""
        found = self
        for token in path.split("."):
            found = found.children.setdefault(token, Member())
        return found

    @property
    def kind(self) -> str:
        """`list` or `dict` for a module that only holds others, else empty."""
        if self.made or self.weights:
            return ""
        places = 0
        for token, child in self._ordered():
            if token != str(places):
                return "dict"
            places += child.made.count if child.made else 1
        return "list"

    def _ordered(self) -> list[tuple[str, Member]]:
        """Return the children, numbered ones in the order of their numbers."""
        return sorted(self.children.items(), key=lambda pair: int(pair[0]) if pair[0].isdigit() else -1)

    def kinds(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield (path, kind) of all modules that only hold others, of those below this one at `path`."""
        for token, child in self.children.items():
            below = f"{path}.{token}" if path else token
            if child.kind:
                yield below, child.kind
            yield from child.kinds(below)

    def updated(self) -> Iterator[str]:
        """Yield the parameters whose updates the expression holds, in the order of the text."""
        if self.made:
            return
        yield from self.updates
        children = [child for _, child in self._ordered()] if self.kind == "list" else self.children.values()
        for child in children:
            yield from child.updated()

    def expression(self) -> str:
        """Return what makes the member with everything in it."""
        if self.made:
            return self.made.text
        if self.kind == "list":
            made = [(child.made, child.expression()) for _, child in self._ordered()]
            if len(made) == 1 and made[0][0] and made[0][0].several:
                return f"nn.ModuleList([{made[0][1]}])"
            parts = (f"*({text})" if how and how.several else text for how, text in made)
            return f"nn.ModuleList([{', '.join(parts)}])"
        held = ", ".join(child.entry(token) for token, child in self.children.items())
        if not self.weights:
            alone = next(iter(self.children.values())).made if len(self.children) == 1 else None
            return f"nn.ModuleDict({{{alone.numbered if alone and alone.numbered else held}}})"
        return f"Weights(mesh, {self.weights})" + (f".holding({{{held}}})" if held else "")

    def entry(self, token: str) -> str:
        """Return the member as an entry of a dict."""
        if self.made and self.made.numbered:
            return f"**{{{self.made.numbered}}}"
        if self.made and self.made.several:
            places = f"range({token}, {int(token) + self.made.count})"
            return f"**dict(zip(map(str, {places}), ({self.made.text}), strict=True))"
        return f'"{token}": {self.expression()}'


def assigned(token: str, value: str) -> str:
    """Return the statement that puts a module into a class."""
    return f"self.{token} = {value}" if is_name(token) else f'self.add_module("{token}", {value})'


def reach(path: str, module: str, kinds: Mapping[str, str], *, parameter: bool = False) -> str:
    """Return the expression for a module or parameter below the class `module`.

    Parameters
    ----------
    kinds
        Path of a module that only holds others → `list` or `dict`.
    """
    text, at = "self", module
    tokens = (path[len(module) + 1 :] if module else path).split(".")
    for place, token in enumerate(tokens, start=1):
        kind = kinds.get(at, "")
        if kind:
            text += f"[{token}]" if kind == "list" else f'["{token}"]'
        elif is_name(token):
            text += f".{token}"
        else:
            text += f'.get_{"parameter" if parameter and place == len(tokens) else "submodule"}("{token}")'
        at = f"{at}.{token}" if at else token
    return text


def is_name(token: str) -> bool:
    """Return whether a token can stand behind a dot."""
    return token.isidentifier() and not keyword.iskeyword(token)
