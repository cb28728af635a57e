"""What autograd keeps for backward of each exported line is what the table says, by name and in bytes."""

from math import prod

import pytest

pytest.importorskip("torch")
import torch

from planner.ops import OPS

from .cases import BATCH, CASES, MESH, REPLICATED, evaluate_on, expression, operands_of, sizes
from .ranks import parts_of
from .test_flops import shapes_of

COMPUTE = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def kept(name: str, dtype: str) -> tuple[set[str], int]:
    """Return the names of saved operands and results, and the bytes of whatever else is saved."""
    one = CASES[name]
    definition = OPS[one.op]
    operands = operands_of(one, COMPUTE[dtype])
    for operand_name, i in zip(definition.operand_names, range(len(operands)), strict=False):
        if operand_name in {
            "cos",
            "sin",
            "maximum",
            "mean_square",
            "moments",
            "picked",
            "sum_exp",
            "total",
            "count",
            "losses",
        }:
            operands[i] = operands[i].float()
        if operand_name in definition.differentiable:
            operands[i].requires_grad_()
    saved: list = []  # type: ignore[type-arg]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        results = evaluate_on(expression(one), operands, MESH, 0)
    names = {x.untyped_storage().data_ptr(): n for n, x in zip(definition.operand_names, operands, strict=False)}
    made = definition.results or ("result",)
    names = {x.untyped_storage().data_ptr(): n for n, x in zip(made, results, strict=False)} | names
    others = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in saved}
    found = {names[key] for key in others if key in names}
    return found, sum(size for key, size in others.items() if key not in names)


FUSED = {
    "attention-wide",
    "full_attention-bias",
    "full_attention-mask",
    "rms_norm",
    "token_loss-smooth",
    "lstm",
    "gru",
    "rnn",
    "route",
}
"""On a GPU one kernel, which keeps less than the CPU's pieces that run here; with smoothing, a mask of tokens."""
EXACT = {("rms_norm-plain", "float32")}
"""The exception: one kernel on the CPU too."""
CASTS = {
    "bce_with_logits",
    "huber_loss",
    "l2_scale",
    "mean_square",
    "moments",
    "mse_loss",
    "rms_scale",
    "rotary",
    "smooth_l1_loss",
}
"""They work in another type than bf16 operands have (or bring), and keep a copy in that type in the operand's place."""
OWN_INDICES = {"block_topk", "merge_topk"}
"""They keep other indices than their results, of the same size."""
SMALL = {"prefix_sum", "route", "token_loss-smooth"}
"""They keep a matrix of as many rows as there are shards, a few numbers or a mask a token, which are left out."""
DIFFERENTIABLE = [
    n for n, one in CASES.items() if OPS[one.op].differentiable and parts_of(one, REPLICATED, MESH)[0][0] is one
]
STATISTICS = {"layer_norm", "batch_norm"}
"""On a GPU their statistics are in fp32 always; on a CPU they have the type of x."""
GROUPS = {
    "group_norm": lambda one: BATCH * one.attribute("groups"),
    "l2_norm": lambda one: prod(sizes(one)[f] for f in one.rule.factors if f != "k"),
}
"""Their statistics, two numbers a group or row, are left out: no shape tells how many there are."""
REPEATED = {"matmul"}
"""A repeated operand is kept as the copy that is made of it."""


@pytest.mark.parametrize("dtype", COMPUTE)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_saved(name: str, dtype: str) -> None:
    one = CASES[name]
    definition = OPS[one.op]
    names, others = kept(name, dtype)
    expected = {
        n
        for n in definition.saved
        if n in {"result", *definition.results} or n in definition.operand_names[: len(one.operands)]
    }
    shapes = tuple(tuple(x.shape) for x in operands_of(one))
    results = [prod(prod(sizes(one)[f] for f in dim) for dim in tensor) for tensor in one.rule.results]
    extra = definition.extra_saved(shapes, COMPUTE[dtype].itemsize) + definition.saved_per_result * sum(results)
    if one.op in OWN_INDICES:
        expected, extra = expected - {"indices"}, 8.0 * prod(shapes_of(name)[1][1])
    if one.op in STATISTICS and dtype == "bfloat16":
        assert (names, 2 * others) == (expected, extra)
    elif one.op in GROUPS:
        assert (names, extra) == (expected, 0)
        assert others == 2 * COMPUTE[dtype].itemsize * GROUPS[one.op](one)
    elif one.op in REPEATED and extra:
        assert names < expected
        assert others == extra
    elif ({name, one.op} & (FUSED | SMALL) and (name, dtype) not in EXACT) or (one.op in CASTS and dtype == "bfloat16"):
        assert names <= expected
        assert others > extra, "is exact now: take it off the list"
    else:
        assert (names, others) == (expected, extra)
