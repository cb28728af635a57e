"""The last resort of lowering: a call becomes the operator `unknown`, which runs it whole on every device."""

from __future__ import annotations

import re

from ....core.symbol import Polynomial
from ....core.tensor import DTYPE_BYTES
from ....errors import ModelError
from ..program import Argument, Ref, Word
from .site import Site, UnloweredError

_RANDOM = re.compile(r"aten\.(rand|bernoulli|exponential|normal|uniform|multinomial|poisson|rrelu|cauchy|geometric)")
"""Calls that draw random numbers."""
_OBJECTS = ("device", "layout", "memory_format", "pin_memory", "generator")
"""Arguments that torch fills in by itself on any device."""


def unknown(site: Site, reason: str) -> tuple[str, ...]:
    """Add the operator `unknown` for a call, and say why.

    Raises
    ------
    ModelError
        `model.operator-unknown` where even `unknown` can't hold it: it is no ATen operator, a size that depends on
        symbols is an argument, a result has an element type that plans don't have, or it draws random numbers.
    """
    call = site.call
    operands: list[str] = []

    def write(argument: Argument) -> str:
        if isinstance(argument, Ref):
            value = site.value(argument)
            if value not in operands:
                operands.append(value)
            return f"x{operands.index(value)}"
        if isinstance(argument, tuple):
            return f"[{', '.join(map(write, argument))}]"
        if isinstance(argument, Word) and argument.text in DTYPE_BYTES:
            return f"torch.{argument.text}"
        if isinstance(argument, Polynomial | Word):
            raise _refused(site, f"its argument {argument} is no literal")
        return repr(argument)

    if not call.target.startswith("aten."):
        raise _refused(site, reason)
    if _RANDOM.match(call.target):
        raise _refused(site, "it draws random numbers, and devices that hold the same elements would draw others")
    alien = next((meta for meta in call.results if meta.dtype not in {*DTYPE_BYTES, "compute"}), None)
    if alien or not call.results:
        raise _refused(site, f"it gives {alien}" if alien else "it gives no tensor")
    try:
        parts = [write(argument) for argument in call.arguments]
        parts += [f"{name}={write(value)}" for name, value in call.keywords if name not in _OBJECTS]
    except UnloweredError as problem:
        raise _refused(site, str(problem).rstrip(".")) from None
    return site.nodes(
        "unknown", *operands, target=call.target, arguments=", ".join(parts),
        results="; ".join(map(str, call.results)), reason=reason,
    )  # fmt: skip


def _refused(site: Site, reason: str) -> ModelError:
    where = f"{site.call.module or 'the model'}{f' ({site.call.source})' if site.call.source else ''}"
    return ModelError(
        "model.operator-unknown", f"{site.call.target} in {where} can't be planned: {reason}.",
        "Write that part of the model with other operators.", subject=site.call.module,
    )  # fmt: skip
