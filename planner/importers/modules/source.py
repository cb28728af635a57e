"""What a plan stores of an architecture: `{"module": NAME, "arguments": {…}}`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.graph import Feed, ModelSource
from ...core.json_text import JsonBounds, canonical, digest, parse
from ...errors import ModelError
from ..config_fields import listed, shown
from .architectures import ARCHITECTURES, Architecture, Argument, Arguments

KIND = "module"
"""Key of the table `IMPORTERS`."""
BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=1 << 16, max_depth=4)
LARGEST = 1 << 30
LONGEST = 256
DEEPEST = 1024
"""Of `depth` and of each entry of `blocks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSource:
    """An architecture and its arguments."""

    architecture: Architecture
    arguments: Arguments

    @property
    def text(self) -> str:
        """The canonical JSON."""
        arguments = {key: list(v) if isinstance(v, tuple) else v for key, v in self.arguments.items()}
        return canonical({"module": self.architecture.name, "arguments": arguments})

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """What inputs hold, where the graph does not tell."""
        return self.architecture.feeds(self.arguments)

    def named(self, name: str) -> ModelSource:
        """Return it as the source of a graph."""
        return ModelSource(name=name, kind=KIND, digest=digest(self.text), content=self.text)


def read_source(text: str, name: str) -> ModuleSource:
    """Return the architecture and the arguments that a text names.

    Parameters
    ----------
    name
        What to call it in messages.

    Raises
    ------
    ModelError
        `model.json-…` if it is no JSON, `model.module-unknown`, `model.module-arguments`.
    """
    values = parse(text, name, BOUNDS)
    wanted = values.get("module") if isinstance(values, dict) else None
    if not isinstance(values, dict) or not isinstance(wanted, str) or wanted not in ARCHITECTURES:
        raise ModelError(
            "model.module-unknown", f"{name} names the module {shown(wanted)}, which does not come along.",
            f"Known are {listed(list(ARCHITECTURES))}.", subject=name,
        )  # fmt: skip
    architecture, given = ARCHITECTURES[wanted], values.get("arguments")
    problems = _problems(architecture, given)
    if problems or not isinstance(given, dict):
        raise ModelError(
            "model.module-arguments", f"In {name}, {'; '.join(problems)}.",
            f"Give {listed(list(architecture.tiny))}, as whole numbers of at least 1.", subject=name,
        )  # fmt: skip
    arguments = {key: tuple(v) if isinstance(v := given[key], list) else v for key in architecture.tiny}
    return ModuleSource(architecture=architecture, arguments=arguments)


def _problems(architecture: Architecture, given: object) -> list[str]:
    if not isinstance(given, Mapping):
        return [f"arguments is {shown(given)}, not an object"]
    missing = [key for key in architecture.tiny if key not in given]
    more = [key for key in given if key not in architecture.tiny]
    found = [f"arguments lacks {listed(missing)}"] if missing else []
    found += [f"{architecture.name} has no argument {listed(more)}"] if more else []
    return found + [
        f"{key} is {shown(given[key])}" for key, like in architecture.tiny.items()
        if key in given and not _is_like(key, given[key], like)
    ]  # fmt: skip


def _is_like(key: str, value: object, like: Argument) -> bool:
    most = DEEPEST if key in {"depth", "blocks"} else LARGEST
    if isinstance(like, tuple):
        return isinstance(value, list) and 0 < len(value) <= LONGEST and all(_is_like(key, v, 1) for v in value)
    return type(value) is int and 1 <= value <= most
