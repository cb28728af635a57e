"""Element types and the shape of tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..errors import ModelError
from .symbol import Size, evaluate, parse

DTYPE_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "bool": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Global shape and element type of a tensor.

    Parameters
    ----------
    shape
        One size a dim; sizes may be polynomials of the symbols `B` (sequences in a microbatch) and `S` (sequence
        length).
    dtype
        A key of `DTYPE_BYTES`, or `compute`: the type that the plan computes in.
    """

    shape: tuple[Size, ...]
    dtype: str = "compute"

    def concrete(self, symbols: frozenset[tuple[str, int]]) -> tuple[int, ...]:
        """Return the shape with every symbol replaced by its value."""
        return tuple(evaluate(size, symbols) for size in self.shape)

    @staticmethod
    def parse(text: str) -> TensorMeta:
        """Read what `str` prints, e.g. `compute[B, S, 4096]`.

        Raises
        ------
        ModelError
            `model.tensor-syntax`, or `model.size-syntax` for one of its sizes.
        """
        match = re.fullmatch(r"(\w+)\[([^\[\]]*)\]", text.strip())
        if match is None or match[1] not in {*DTYPE_BYTES, "compute"}:
            raise ModelError(
                "model.tensor-syntax", f"{text!r} is no element type with a shape.", "Write it as compute[B, S, 4096]."
            )
        return TensorMeta(tuple(parse(size) for size in match[2].split(",") if size.strip()), match[1])

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(size) for size in self.shape)}]"


def nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a dense tensor of this shape."""
    return prod(shape) * DTYPE_BYTES[dtype]
