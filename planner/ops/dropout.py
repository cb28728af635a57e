"""Dropout whose mask depends on the element's place in the whole tensor, and on nothing else of the plan.

Ranks that hold the same element drop it alike, and ranks that hold different ones draw independently, without any
communication: the mask is a counter-based random number (Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3") of seed, operator, layer, step and global index. Generators of their own would let replicas drift apart.
"""

from __future__ import annotations

from math import prod
from zlib import crc32

from ..core.layers import of_all_layers
from ..core.rule import ShardingRule
from ..core.symbol import Polynomial
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, OpDef, leading, per_element, shapes_of


def _infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    share = attributes["p"]
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise RuleError(
            "rule.dropout-share", f"Dropout can't zero a share of {share}.", "Use a share of at least 0 and below 1."
        )
    return (operands[0],)


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    tensor = f"{leading(len(operands[0].shape) - 1)} h"
    return ShardingRule.parse(f"{tensor} -> {tensor}", shapes=shapes_of(operands + results), names=("x",), terms="x")


def _torch(local: Local) -> str:
    dims = [dim[0] for dim in local.node.rule.operands[0]]
    origin = [local.start.get(factor, "0") for factor in dims]
    rows = _rows_of_a_sequence(local, dims[0])
    if rows:
        # A microbatch holds later sequences of the same batch.
        first = "mesh.sequence" + (f" * {rows}" if rows > 1 else "")
        origin[0] = first if origin[0] == "0" else f"{first} + {origin[0]}"
    shape = tuple(local.whole[factor] for factor in dims)
    # Stages and other cuts of a list of layers rename what is in it; what it drops stays.
    operator = crc32(of_all_layers(local.node.name).encode())
    key = f"({local.attribute('seed')}, {operator}, {local.layer}, mesh.step)"
    listed = f"({', '.join(origin)}{',' * (len(origin) == 1)})"
    return f"ops.dropout({local.arguments[0]}, p={local.attribute('p')!r}, key={key}, origin={listed}, shape={shape})"


def _rows_of_a_sequence(local: Local, factor: str) -> int:
    """Return how many indices of the first dim belong to one sequence; 0 if it is no dim of sequences."""
    with_batch = [names for names, _ in Polynomial.of(local.node.rule.size(factor)).terms if "B" in names]
    return local.whole[factor] // local.sequences if with_batch else 0


DROPOUT = OpDef(
    name="dropout",
    summary="zeroes a share p of the elements, chosen by their global index, and divides the others by 1 − p",
    operands=("x",),
    infer=_infer,
    rule=_rule,
    # Three rounds of shift, exclusive or and product, the comparison and the scaling.
    flops=per_element(12),
    backward_flops=per_element(2),
    # Which elements are dropped, a byte each.
    extra_saved=lambda operands, _: float(prod(operands[0])),
    differentiable=("x",),
    layered=True,
    torch=_torch,
)
