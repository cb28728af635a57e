"""Windows that slide over space: sizes, and what sharding a spatial dim needs.

With reach = (kernel − 1) · dilation + 1, a dim of size n has out = ⌊(n + 2 · padding − reach) / stride⌋ + 1 windows.
Where n = out · stride, window i starts in rows i · stride …, so that shards of the result match shards of the operand,
written `(y ys) … -> y`. A device then lacks `before` = padding rows of its neighbour above and `after` = reach − stride
− padding rows of the one below: the halo. Without a halo sharding is free; with one it is special (`halo`).

A dim in *blocks* is one that has been extended by halos: each block is for itself, without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.rule import Factors
from ..core.symbol import Size
from ..errors import RuleError
from .definition import Attributes, space


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window on one dim of `size`, which is in `blocks`."""

    size: Size
    kernel: int
    stride: int
    padding: int
    dilation: int = 1
    blocks: int = 1

    @property
    def reach(self) -> int:
        """How many rows a window spans."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def out(self) -> Size:
        """How many windows there are."""
        if self.stride == 1:
            return self.size + self.blocks * (2 * self.padding - self.reach + 1)
        return self.blocks * (
            (whole_number(self.size) // self.blocks + 2 * self.padding - self.reach) // self.stride + 1
        )

    @property
    def before(self) -> int:
        """Rows that a shard needs of the one above."""
        return self.padding

    @property
    def after(self) -> int:
        """Rows that a shard needs of the one below."""
        return max(0, self.reach - self.stride - self.padding)

    @property
    def refusal(self) -> str:
        """Why the dim may not be sharded; empty if it may."""
        if self.size != self.out * self.stride:
            return f"its {self.size} rows are not {self.stride} times the {self.out} of the result"
        if self.halo and not isinstance(self.size, int):
            return f"its neighbours share rows, which needs a number of rows, not {self.size}"
        return ""

    @property
    def halo(self) -> bool:
        """Whether a shard needs rows of its neighbours."""
        return self.blocks == 1 and self.before + self.after > 0

    @property
    def least(self) -> int:
        """Smallest shard of the result whose neighbours need rows of it alone."""
        return -(-max(self.before, self.after) // self.stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial:
    """The spatial dims of a rule: factors by dim, and what is said about them."""

    operand: tuple[Factors, ...]
    kernel: tuple[Factors, ...]
    result: tuple[Factors, ...]
    sizes: dict[str, Size]
    blocked: dict[str, str]
    special: frozenset[str]
    even: frozenset[str]
    least: dict[str, int]

    @property
    def kernel_blocked(self) -> dict[str, str]:
        """Why the factors of the kernel may not be sharded."""
        return {factor: "the kernel is applied whole" for dim in self.kernel for factor in dim}


def whole_number(size: Size) -> int:
    """Return a size that has to be a number.

    Raises
    ------
    RuleError
        `rule.size-symbolic`.
    """
    if not isinstance(size, int):
        raise RuleError(
            "rule.size-symbolic", f"Windows need a number of rows, not {size}.", "Give the model's images a size."
        )
    return size


def windows(attributes: Attributes, sizes: Sequence[Size], kernel: Sequence[Size]) -> tuple[Window, ...]:
    """Return the window on each spatial dim, from the attributes stride, padding, dilation and blocks."""
    count = len(sizes)
    kernels = [whole_number(k) for k in kernel]
    stride = numbers(attributes, "stride", count, kernels)
    padding, dilation, blocks = (numbers(attributes, name, count, [default] * count)
                                 for name, default in (("padding", 0), ("dilation", 1), ("blocks", 1)))  # fmt: skip
    return tuple(
        Window(size=n, kernel=k, stride=s, padding=p, dilation=d, blocks=b)
        for n, k, s, p, d, b in zip(sizes, kernels, stride, padding, dilation, blocks, strict=True)
    )


def numbers(attributes: Attributes, name: str, count: int, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute that has one integer a spatial dim."""
    value = attributes.get(name, tuple(default))
    if not isinstance(value, tuple) or len(value) != count or not all(isinstance(n, int) for n in value):
        raise RuleError("rule.window", f"{name} = {value} is not {count} integers.", "Give one for each spatial dim.")
    return tuple(int(n) for n in value)


def spatial(over: Sequence[Window]) -> Spatial:
    """Return the spatial dims of an operand, its kernel and its result.

    Factors of a dim `y`: `ys` are the steps of a stride, `ky` is the kernel; of one in blocks, `y` are the blocks,
    `ys` the rows of one and `yo` its windows.
    """
    operand: list[Factors] = []
    result: list[Factors] = []
    sizes: dict[str, Size] = {}
    blocked: dict[str, str] = {}
    names = space(len(over))
    for name, window in zip(names, over, strict=True):
        if window.blocks > 1:
            sizes[name] = window.blocks
            blocked |= {f"{name}s": "a block's windows overlap", f"{name}o": "a block's windows overlap"}
            operand.append((name, f"{name}s"))
            result.append((name, f"{name}o"))
        elif window.refusal:
            blocked |= {f"{name}_in": window.refusal, name: window.refusal}
            operand.append((f"{name}_in",))
            result.append((name,))
        elif window.stride > 1:
            blocked[f"{name}s"] = "a window starts at the first row of a stride"
            operand.append((name, f"{name}s"))
            result.append((name,))
        else:
            operand.append((name,))
            result.append((name,))
    special = frozenset(n for n, w in zip(names, over, strict=True) if w.halo and not w.refusal)
    return Spatial(
        operand=tuple(operand),
        kernel=tuple((f"k{name}",) for name in names),
        result=tuple(result),
        sizes=sizes,
        blocked=blocked,
        special=special,
        even=special | {n for n, w in zip(names, over, strict=True) if w.blocks > 1},
        least={n: w.least for n, w in zip(names, over, strict=True) if n in special},
    )
