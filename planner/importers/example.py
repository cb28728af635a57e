"""An example input of a module, written as `tokens=int64[B=8,S=2048]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..core.tensor import DTYPE_BYTES
from ..errors import ModelError

SYMBOLS = ("B", "S")
_INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>[a-z]+\d*)\[(?P<dims>[^\[\]]*)\]")
_DIM = re.compile(r"(?:(?P<symbol>[A-Za-z_]\w*)=)?(?P<size>\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One input.

    Parameters
    ----------
    name
        Of a parameter of `forward`; empty for the one at this place.
    dtype
        Key of `DTYPE_BYTES`.
    symbols
        What each size stands for; empty for a fixed one.
    """

    name: str
    dtype: str
    sizes: tuple[int, ...]
    symbols: tuple[str, ...]


def read_example(text: str) -> Example:
    """Return the input that a text describes.

    Raises
    ------
    ModelError
        `model.input-syntax`.
    """
    match = _INPUT.fullmatch(text.replace(" ", ""))
    dims = [_DIM.fullmatch(dim) for dim in match["dims"].split(",") if dim] if match else []
    found = [dim for dim in dims if dim is not None]
    if match is None or len(found) < len(dims):
        raise _refused(text, "is no input")
    if match["dtype"] not in DTYPE_BYTES:
        raise _refused(text, f"has the element type {match['dtype']}, which is none of {', '.join(DTYPE_BYTES)}")
    symbols = tuple(dim["symbol"] or "" for dim in found)
    if other := next((symbol for symbol in symbols if symbol and symbol not in SYMBOLS), ""):
        raise _refused(text, f"has the symbol {other}, and a plan gives sizes to {' and '.join(SYMBOLS)} alone")
    sizes = tuple(int(dim["size"]) for dim in found)
    return Example(name=match["name"] or "", dtype=match["dtype"], sizes=sizes, symbols=symbols)


def _refused(text: str, what: str) -> ModelError:
    return ModelError(
        "model.input-syntax", f"{text!r} {what}.",
        "Write an element type with sizes, e.g. int64[8,2048] or tokens=int64[B=8,S=2048].", subject=text,
    )  # fmt: skip
