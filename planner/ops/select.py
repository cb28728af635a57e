"""Operators that pick, shift and pad along one dim.

Along that dim operand and result have factors of their own, since index i of one is another index of the other: `n`
of the operand is a reduction (each shard places what it holds, zeros elsewhere, and the sum is whole), `m` of the
result is passed through (each rank picks its part of the whole operand). A slice that takes one element of every q is
`(m q) -> m`: shards of the operand give shards of the result. All are linear.

A slice of a dim of open size says how many elements it takes, from `start` or, with `tail`, to the end: `size` =
`S + -1`, in place of `stop`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.rule import ShardingRule
from ..core.symbol import Size, parse
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, dim_of, names_of, per_element
from .lines import attributes_of, integer, like_first, line, misfit, replaced

Metas = tuple[TensorMeta, ...]
Bounds = Callable[[Attributes, int], tuple[int, int]]
"""Attributes and whole size of the dim → index of the first element of the result, and the step to the next."""


def _resized(x: TensorMeta, dim: int, size: Size) -> Metas:
    return (TensorMeta((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype),)


def _rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    kept = len(results[0].shape) == len(dims)
    made = replaced(dims, dim, *(["m"] if kept else []))
    terms = "" if attributes.get("value") else "x"
    return line(operands, results, [replaced(dims, dim, "n")], [made], names=("x",), terms=terms)


def _slice_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    step = integer(attributes, "step", 1)
    if step == 1 or operands[0].shape[dim] != step * results[0].shape[dim]:
        return _rule(operands, results, attributes)
    return line(
        operands, results, [replaced(dims, dim, "(m q)")], [replaced(dims, dim, "m")], names=("x",), terms="x",
        sizes={"q": step}, blocked={"q": "one element of each stride is picked"},
    )  # fmt: skip


def _sharded(local: Local) -> bool:
    return "n" in local.start or "m" in local.start


def _window(local: Local, bounds: Bounds, *, shift: int = 0) -> str:
    """Return the call that gives this rank's part of the result from its part of the operand."""
    attributes = attributes_of(local)
    dim = dim_of(attributes, len(local.operands[0]))
    start, step = bounds(attributes, local.whole["n"])
    offset = f" + {local.start['m']}" if "m" in local.start else ""
    if step != 1 and offset:
        offset = f" + {step} * ({local.start['m']})"
    arguments = [local.arguments[0], str(dim), f"{start + shift}{offset}", str(local.sizes.get("m", 1))]
    if step != 1:
        arguments.append(f"step={step}")
    if "n" in local.start:
        arguments.append(f"first={local.start['n']}")
    return f"indexing.window({', '.join(arguments)})"


def _slice_range(attributes: Attributes, size: int) -> range:
    start = integer(attributes, "start", 0)
    stop = integer(attributes, "stop", size)
    step = integer(attributes, "step", 1)
    if step < 1:
        raise misfit(f"a slice has the step {step}")
    return range(size)[start:stop:step]


def _slice_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim = dim_of(attributes, len(x.shape))
    size, count = x.shape[dim], attributes.get("size")
    if isinstance(count, str):
        return _resized(x, dim, parse(count))
    if not isinstance(size, int):
        raise misfit(f"a slice of a dim of open size {size} has no known size; give it the attribute size")
    picked = _slice_range(attributes, size)
    if not picked:
        raise misfit(f"a slice {attributes} of a dim of size {size} is empty")
    return _resized(x, dim, len(picked))


def _slice_bounds(local: Local) -> Bounds:
    def bounds(attributes: Attributes, size: int) -> tuple[int, int]:
        step = integer(attributes, "step", 1)
        if attributes.get("tail", False):
            return size - local.whole["m"] * step, step
        if "size" in attributes:
            return integer(attributes, "start", 0) % size, step
        picked = _slice_range(attributes, size)
        return picked.start, picked.step

    return bounds


def _slice_torch(local: Local) -> str:
    attributes = attributes_of(local)
    skipped = ":, " * dim_of(attributes, len(local.operands[0]))
    if "q" in local.sizes:
        return f"{local.arguments[0]}[{skipped}{integer(attributes, 'start', 0)}::{local.whole['q']}]"
    if _sharded(local):
        return _window(local, _slice_bounds(local))
    start, step = _slice_bounds(local)(attributes, local.whole["n"])
    picked = range(start, start + step * local.whole["m"], step)
    if "size" not in attributes:
        picked = _slice_range(attributes, local.whole["n"])
    return f"{local.arguments[0]}[{skipped}{picked.start}:{picked.stop}{f':{step}' if step != 1 else ''}]"


def _select_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim = dim_of(attributes, len(x.shape))
    size, index = x.shape[dim], integer(attributes, "index")
    if isinstance(size, int) and not -size <= index < size:
        raise misfit(f"a dim of size {size} has no index {index}")
    return (TensorMeta((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype),)


def _select_bounds(attributes: Attributes, size: int) -> tuple[int, int]:
    return integer(attributes, "index") % size, 1


def _select_torch(local: Local) -> str:
    attributes = attributes_of(local)
    dim = dim_of(attributes, len(local.operands[0]))
    if _sharded(local):
        return f"{_window(local, _select_bounds)}.squeeze({dim})"
    return f"{local.arguments[0]}.select({dim}, {integer(attributes, 'index')})"


def _flip_torch(local: Local) -> str:
    if _sharded(local):
        return _window(local, lambda _, size: (size - 1, -1))
    return f"{local.arguments[0]}.flip({dim_of(attributes_of(local), len(local.operands[0]))})"


def _roll_bounds(attributes: Attributes, size: int) -> tuple[int, int]:
    return -(integer(attributes, "shift") % size), 1


def _roll_torch(local: Local) -> str:
    if _sharded(local):
        # Of the two windows, one turn apart, exactly one holds an element; in the other it is zero.
        return f"{_window(local, _roll_bounds)} + {_window(local, _roll_bounds, shift=local.whole['n'])}"
    attributes = attributes_of(local)
    dim = dim_of(attributes, len(local.operands[0]))
    return f"{local.arguments[0]}.roll({integer(attributes, 'shift')}, {dim})"


def _pad_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    before, after = integer(attributes, "before", 0), integer(attributes, "after", 0)
    if before < 0 or after < 0:
        raise misfit(f"a padding of {before} before and {after} after is negative")
    dim = dim_of(attributes, len(x.shape))
    return _resized(x, dim, x.shape[dim] + (before + after))


def _pad_bounds(attributes: Attributes, _: int) -> tuple[int, int]:
    return -integer(attributes, "before", 0), 1


def _pad_torch(local: Local) -> str:
    attributes = attributes_of(local)
    dim = dim_of(attributes, len(local.operands[0]))
    before, value = integer(attributes, "before", 0), attributes.get("value", 0.0)
    if not _sharded(local):
        zeros = "0, 0, " * (len(local.operands[0]) - 1 - dim)
        sizes = f"({zeros}{before}, {integer(attributes, 'after', 0)})"
        return f"F.pad({local.arguments[0]}, {sizes}{f', value={value!r}' if value else ''})"
    text = _window(local, _pad_bounds)
    if not value:
        return text
    start = f"{-before}" + (f" + {local.start['m']}" if "m" in local.start else "")
    # The sum over the ranks that hold the operand must be `value` too: those with its first element give it.
    given = f"{value!r} if {local.start['n']} == 0 else 0.0" if "n" in local.start else repr(value)
    return f"indexing.fill_beyond({text}, {dim}, {start}, {local.whole['n']}, {given})"


def _along(
    name: str,
    summary: str,
    infer: Callable[[Metas, Attributes], Metas],
    torch: Callable[[Local], str],
    rule: Callable[[Metas, Metas, Attributes], ShardingRule] = _rule,
) -> OpDef:
    return OpDef(
        name=name, summary=summary, operands=("x",), infer=infer, rule=rule, flops=per_element(0),
        backward_flops=per_element(1), differentiable=("x",), torch=torch,
    )  # fmt: skip


SLICE = _along("slice", "elements start:stop:step of one dim", _slice_infer, _slice_torch, _slice_rule)
SELECT = _along("select", "one index of a dim, which goes", _select_infer, _select_torch)
FLIP = _along("flip", "one dim in reverse", like_first, _flip_torch)
ROLL = _along("roll", "one dim shifted round", like_first, _roll_torch)
PAD = _along("pad", "one dim with zeros, or a value, before and after it", _pad_infer, _pad_torch)
SELECTIONS = (SLICE, SELECT, FLIP, ROLL, PAD)
