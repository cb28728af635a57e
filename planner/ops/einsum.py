"""Products of tensors said by index: the equation *is* the factor line."""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Count, Local, OpDef, Shape, leading
from .lines import attributes_of, line, misfit

Metas = tuple[TensorMeta, ...]


def _sides(attributes: Attributes, count: int) -> tuple[list[str], str]:
    """Return the letters of each operand, and of the result."""
    equation = attributes.get("equation")
    if not isinstance(equation, str) or equation.count("->") != 1:
        raise misfit(f"{equation!r} is no equation such as 'bij,bjk->bik'")
    left, right = (side.strip() for side in equation.replace(" ", "").split("->"))
    read = left.split(",")
    if not all(side.isalpha() or not side for side in (*read, right)):
        raise misfit(f"the equation {equation!r} holds something else than letters")
    if len(read) != count:
        raise misfit(f"the equation {equation!r} is for {len(read)} operands, not {count}")
    for side in (*read, right):
        if len(set(side)) < len(side):
            raise misfit(f"the equation {equation!r} takes a diagonal: {side} has a letter twice")
    if not set(right) <= set(left):
        raise misfit(f"the result of {equation!r} has a letter that no operand has")
    return read, right


def _infer(operands: Metas, attributes: Attributes) -> Metas:
    read, made = _sides(attributes, len(operands))
    sizes: dict[str, Size] = {}
    for letters, x in zip(read, operands, strict=True):
        if len(letters) != len(x.shape):
            raise misfit(f"{letters} has {len(letters)} letters for {x}")
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise misfit(f"{letter} stands for {sizes[letter]} and {size}")
    return (TensorMeta(tuple(sizes[letter] for letter in made), operands[0].dtype),)


def _rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    read, made = _sides(attributes, len(operands))
    return line(operands, results, read, [made], names=("x", "y"), terms="x*y")


def _counts(attributes: Attributes) -> tuple[Count, Count]:
    """Count a multiply-add for each point of the iteration space; the product for an operand's gradient has as many."""
    letters, _ = _sides(attributes, 2)

    def points(operands: tuple[Shape, ...]) -> int:
        return prod(
            {c: n for side, x in zip(letters, operands, strict=True) for c, n in zip(side, x, strict=True)}.values()
        )

    return lambda operands, _: 2.0 * points(operands), lambda operands, _: 4.0 * points(operands)


def _torch(local: Local) -> str:
    return f'torch.einsum("{attributes_of(local)["equation"]}", {", ".join(local.arguments)})'


def _added_infer(operands: Metas, _: Attributes) -> Metas:
    bias, x, y = operands
    shape = (*x.shape[:-1], y.shape[-1])
    if len(bias.shape) > len(shape) or any(
        size not in (1, whole) for size, whole in zip(bias.shape, shape[len(shape) - len(bias.shape) :], strict=True)
    ):
        raise misfit(f"{bias} can't be added to a product of [{', '.join(map(str, shape))}]")
    return (TensorMeta(shape, x.dtype),)


def _added_rule(operands: Metas, results: Metas, _: Attributes) -> ShardingRule:
    shape = results[0].shape
    lead = leading(len(shape) - 2).split()
    made = [*lead, "m", "n"]
    bias = [
        "1" if size == 1 else name
        for name, size in zip(made[len(made) - len(operands[0].shape) :], operands[0].shape, strict=True)
    ]
    return line(
        operands, results, [bias, [*lead, "m", "k"], [*lead, "k", "n"]], [made],
        names=("bias", "x", "y"), terms="bias + x*y",
    )  # fmt: skip


def _added_torch(local: Local) -> str:
    attributes = attributes_of(local)
    scales = [f"{name}={attributes[name]!r}" for name in ("beta", "alpha") if attributes.get(name, 1) != 1]
    return f"torch.{local.node.op}({', '.join([*local.arguments, *scales])})"


def _product_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    return 2.0 * prod(results[0]) * operands[1][-1]


def _added(name: str, summary: str) -> OpDef:
    return OpDef(
        name=name, summary=summary, operands=("bias", "x", "y"), infer=_added_infer, rule=_added_rule,
        flops=_product_flops, backward_flops=lambda operands, results: 2 * _product_flops(operands, results),
        saved=("x", "y"), product=True, differentiable=("bias", "x", "y"), matmul=True, torch=_added_torch,
    )  # fmt: skip


EINSUM = OpDef(
    name="einsum",
    summary="sum of the products of two tensors by index",
    operands=("x", "y"),
    infer=_infer,
    rule=_rule,
    # At the least, each operand counts once; `counts` knows the equation.
    flops=lambda operands, _: 2.0 * max(prod(x) for x in operands),
    backward_flops=lambda operands, _: 4.0 * max(prod(x) for x in operands),
    counts=_counts,
    saved=("x", "y"),
    product=True,
    differentiable=("x", "y"),
    matmul=True,
    torch=_torch,
)
ADDMM = _added("addmm", "bias plus the product of two matrices")
BADDBMM = _added("baddbmm", "bias plus the product of two batches of matrices")
PRODUCTS = (EINSUM, ADDMM, BADDBMM)
