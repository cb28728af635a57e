"""Every placement that the installed torch's DTensor registers is in our rules, or is wrong and listed here.

`ATEN` says which aten operator a case is. A row that we lack runs on two ranks with generic data: it must be wrong.
"""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from planner.ops import OPS

from . import dtensor
from .cases import CASES, operands_of
from .placements import Row, is_right, rows
from .test_complete import refused_rows

aten = torch.ops.aten
ATEN: dict[str, tuple[Any, dtensor.Build]] = {
    "addmm": (aten.addmm.default, lambda bias, x, y: (bias, x, y)),
    "addmm-scaled": (aten.addmm.default, lambda bias, x, y: (bias, x, y)),
    "add-scalar": (aten.add.Tensor, lambda x, y: (x, y)),
    "adaptive_average_pool": (aten._adaptive_avg_pool2d.default, lambda x: (x, [1, 1])),
    "amax": (aten.amax.default, lambda x: (x, [1])),
    "amax-keepdim": (aten.amax.default, lambda x: (x, [0, 2], True)),
    "amin": (aten.amin.default, lambda x: (x, [2])),
    "argmax": (aten.argmax.default, lambda x: (x, 1)),
    "argmin": (aten.argmin.default, lambda x: (x, 1)),
    "attention": (aten._scaled_dot_product_flash_attention.default, lambda q, k, v: (q, k, v, 0.0, True)),
    "baddbmm": (aten.baddbmm.default, lambda bias, x, y: (bias, x, y)),
    "einsum-bmm": (aten.bmm.default, lambda x, y: (x, y)),
    "einsum-dot": (aten.dot.default, lambda x, y: (x, y)),
    "einsum-mm": (aten.mm.default, lambda x, y: (x, y)),
    "embedding": (aten.embedding.default, lambda tokens, weight: (weight, tokens)),
    "gather": (aten.gather.default, lambda x, index: (x, 1, index)),
    "index_add": (aten.index_add.default, lambda x, index, source: (x, 1, index, source)),
    "index_select": (aten.index_select.default, lambda x, index: (x, 1, index)),
    "cast": (aten._to_copy.default, lambda x: (x,)),
    "average_pool": (aten.avg_pool2d.default, lambda x: (x, [2, 2])),
    "attention-wide": (aten._scaled_dot_product_flash_attention.default, lambda q, k, v: (q, k, v, 0.0, True)),
    "full_attention": (aten._scaled_dot_product_flash_attention.default, lambda q, k, v: (q, k, v)),
    "full_attention-bias": (aten._scaled_dot_product_efficient_attention.default, lambda *all_: (*all_, True)),
    "batch_norm": (aten._native_batch_norm_legit.no_stats, lambda x, w, b: (x, w, b, True, 0.1, 1e-5)),
    "convolution": (aten.convolution.default, lambda x, w, b: (x, w, b, [1], [1], [1], False, [0], 1)),
    "convolution-valid": (aten.convolution.default, lambda x, w: (x, w, None, [1], [0], [1], False, [0], 1)),
    "conv_transpose": (aten.convolution.default, lambda x, w, b: (x, w, b, [1], [1], [1], True, [0], 1)),
    "clamp": (aten.clamp.default, lambda x: (x, -0.5, 0.75)),
    "compare": (aten.lt.Tensor, lambda x, y: (x, y)),
    "compare-repeated": (aten.ge.Tensor, lambda x, y: (x, y)),
    "elu": (aten.elu.default, lambda x: (x,)),
    "gelu": (aten.gelu.default, lambda x: (x,)),
    "group_norm": (aten.native_group_norm.default, lambda x, w, b: (x, w, b, 4, 8, 8, 2, 1e-5)),
    "layer_norm": (aten.native_layer_norm.default, lambda x, w, b: (x, [8], w, b, 1e-5)),
    "layer_norm-two": (aten.native_layer_norm.default, lambda x, w, b: (x, [2, 8], w, b, 1e-5)),
    "interpolate-plane": (aten.upsample_nearest2d.default, lambda x: (x, [8, 6])),
    "interpolate-linear": (aten.upsample_bilinear2d.default, lambda x: (x, [16, 8], False)),
    "max_pool-plane": (aten.max_pool2d_with_indices.default, lambda x: (x, [3, 3], [2, 2], [1, 1])),
    "leaky_relu": (aten.leaky_relu.default, lambda x: (x, 0.1)),
    "logcumsumexp": (aten.logcumsumexp.default, lambda x: (x, 1)),
    "log_softmax": (aten._log_softmax.default, lambda x: (x, 2, False)),
    "logical_and": (aten.bitwise_and.Tensor, lambda x, y: (x, y)),
    "logical_not": (aten.bitwise_not.default, lambda x: (x,)),
    "logical_or": (aten.bitwise_or.Tensor, lambda x, y: (x, y)),
    "masked_fill": (aten.masked_fill.Scalar, lambda x, mask: (x, mask, 0.0)),
    "masked_fill-infinite": (aten.masked_fill.Scalar, lambda x, mask: (x, mask, 1e4)),
    "pow": (aten.pow.Tensor_Scalar, lambda x: (x, 3)),
    "permute": (aten.permute.default, lambda x: (x, [1, 2, 0])),
    "prod": (aten.prod.dim_int, lambda x: (x, 1)),
    "repeat_interleave": (aten.repeat_interleave.self_int, lambda x: (x, 2, 1)),
    "repeat": (aten.repeat.default, lambda x: (x, [1, 2, 1])),
    "rms_norm": (aten.rms_norm.default, lambda x, weight: (x, [8], weight, 1e-5)),
    "cumprod": (aten.cumprod.default, lambda x: (x, 1)),
    "cumsum": (aten.cumsum.default, lambda x: (x, 1)),
    "concat": (aten.cat.default, lambda x, y: ([x, y], 1)),
    "concat-unequal": (aten.cat.default, lambda x, y: ([x, y], 1)),
    "expand": (aten.expand.default, lambda x: (x, [4, 6, 8])),
    "expand-leading": (aten.expand.default, lambda x: (x, [4, 4, 8])),
    "flip": (aten.flip.default, lambda x: (x, [1])),
    "mean": (aten.mean.dim, lambda x: (x, [1])),
    "mean-keepdim": (aten.mean.dim, lambda x: (x, [0, 2], True)),
    "pad": (aten.constant_pad_nd.default, lambda x: (x, [0, 0, 1, 3])),
    "pad-value": (aten.constant_pad_nd.default, lambda x: (x, [0, 0, 2, 0], 1.5)),
    "reshape": (aten.reshape.default, lambda x: (x, [4, 32])),
    "reshape-apart": (aten.reshape.default, lambda x: (x, [6, 4, 2])),
    "reshape-flat": (aten.reshape.default, lambda x: (x, [32])),
    "reshape-ones": (aten.reshape.default, lambda x: (x, [8, 1, 2, 2])),
    "reshape-split": (aten.reshape.default, lambda x: (x, [2, 2, 3, 4])),
    "roll": (aten.roll.default, lambda x: (x, [3], [1])),
    "row_max": (aten.amax.default, lambda x: (x, [-1])),
    "scatter": (aten.scatter.src, lambda x, index, source: (x, 1, index, source)),
    "scatter_add": (aten.scatter_add.default, lambda x, index, source: (x, 1, index, source)),
    "scale": (aten.mul.Scalar, lambda x: (x, 0.5)),
    "shift": (aten.add.Scalar, lambda x: (x, 1.5)),
    "select": (aten.select.int, lambda x: (x, 1, -3)),
    "slice": (aten.slice.Tensor, lambda x: (x, 1, 1, 5)),
    "slice-step": (aten.slice.Tensor, lambda x: (x, 1, 0, 6, 3)),
    "slice-stride": (aten.slice.Tensor, lambda x: (x, 1, 1, 8, 2)),
    "softmax": (aten._softmax.default, lambda x: (x, -1, False)),
    "softmax-middle": (aten._softmax.default, lambda x: (x, 1, False)),
    "sort": (aten.sort.default, lambda x: (x, 1, True)),
    "split": (aten.split_with_sizes.default, lambda x: (x, [4, 4], 2)),
    "split-unequal": (aten.split_with_sizes.default, lambda x: (x, [2, 6], 2)),
    "squeeze": (aten.squeeze.dim, lambda x: (x, 1)),
    "stack": (aten.stack.default, lambda x, y: ([x, y], 1)),
    "sum": (aten.sum.dim_IntList, lambda x: (x, [1, 2])),
    "sum-keepdim": (aten.sum.dim_IntList, lambda x: (x, [0], True)),
    "sum_tokens": (aten.sum.default, lambda x: (x,)),
    "to_integer": (aten._to_copy.default, lambda x: (x,)),
    "window_attention": (aten._scaled_dot_product_flash_attention.default, lambda q, k, v: (q, k, v, 0.0, True)),
    "where": (aten.where.self, lambda condition, x, y: (condition, x, y)),
    "where-repeated": (aten.where.self, lambda condition, x, y: (condition, x, y)),
    "topk": (aten.topk.default, lambda x: (x, 2, 1)),
    "topk-smallest": (aten.topk.default, lambda x: (x, 4, 1, False)),
    "var": (aten.var.correction, lambda x: (x, [1])),
    "var-keepdim": (aten.var.correction, lambda x: (x, [1, 2])),
    "tril": (aten.tril.default, lambda x: (x, 1)),
    "triu": (aten.triu.default, lambda x: (x,)),
    "unsqueeze": (aten.unsqueeze.default, lambda x: (x, 1)),
}
"""Case → aten operator and how it takes the operands; one whose operator has the name of an aten one needs no line."""
WITHOUT: dict[str, str] = {
    "arange": "it reads no tensor",
    "causal_mask": "it reads no tensor",
    "constant": "it reads no tensor",
    "embedding_bag": "written by its parts",
    "full": "it reads no tensor",
    "receive": "a message between stages, which DTensor does not know",
    "one_hot": "no row is registered for it",
    "block_add": "a part of cumsum",
    "block_cumsum": "a part of cumsum",
    "block_prod": "a part of prod",
    "block_sum": "a part of cumsum",
    "block_topk": "a part of topk",
    "merge_arg": "a part of argmax",
    "merge_topk": "a part of topk",
    "prefix_sum": "a part of cumsum",
    "add_sink": "a part of attention",
    "sink_max": "a part of attention",
    "attend": "a part of attention",
    "masked_attention": "that of full attention, whose numbers a mask of truth values becomes",
    "sink_attention": "torch has no kernel for it",
    "attention_scores": "a part of attention",
    **dict.fromkeys(
        ("bce_with_logits", "huber_loss", "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss"),
        "an elementwise one, sum and quotient by a global count",
    ),
    "collect": "a product of matrices and its views",
    "dispatch": "a product of matrices and its views",
    "lstm": "DTensor has no rows of its own for it",
    "gru": "DTensor has no rows of its own for it",
    "rnn": "DTensor has no rows of its own for it",
    "place": "one-hot, cumsum and scatter-add",
    "route": "top-k, one-hot, cumsum and products",
    "unknown": "any other operator",
    "borders": "slices and concat",
    "count_targets": "comparison, sum and cast",
    "count_ties": "a part of amax",
    "cross_entropy": "written by its parts",
    "dropout": "its mask is no function of a generator",
    "divide": "a quotient that is safe for zero targets",
    "expert_linear": "a batched product",
    "extend": "slices and concat",
    "hide_future": "a part of attention",
    "geglu": "gelu and product",
    "extremum": "amax without gradient",
    "l2_norm": "norm and quotient",
    "l2_scale": "a part of the norm",
    "log_loss": "several elementwise ones",
    "log_softmax_shift": "a part of log_softmax",
    "mean_square": "a part of the norm",
    "merge_heads": "transpose and view",
    "moments": "a part of the norms",
    "normalize": "a part of the norms",
    "pick_target": "a part of the loss",
    "prelu": "DTensor has no rows of its own for it",
    "rms_scale": "a part of the norm",
    "rotary": "several elementwise ones",
    "rotary_table": "several elementwise ones",
    "share_ties": "a part of amax",
    "softmax_scale": "a part of softmax",
    "split_heads": "view and transpose",
    "squared_deviation": "a part of var",
    "sum_exp": "a part of the loss",
    "swiglu": "silu and product",
    "token_loss": "log-softmax and gather",
}
"""Operators that no single aten operator is."""
_SLICED: set[Row] = {(("S1",), ("R",))}
WRONG: dict[str, set[Row]] = {
    # Integers are cut off, so that their sum is another one.
    "to_integer": {(("P",), ("P",))},
    # It gathers the operand first, and does not say so in the row.
    "slice": _SLICED,
    "slice-step": _SLICED,
    "slice-stride": _SLICED,
}
"""Per case, rows of DTensor that give another result."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield DeviceMesh("cpu", [0, 1])
    dist.destroy_process_group()


def counterpart(name: str) -> tuple[Any, dtensor.Build] | None:
    """Return the aten operator of a case; None if there is none of its name that takes just the operands."""
    one = CASES[name]
    if name in ATEN or one.op in WITHOUT:
        return ATEN.get(name)
    overloads = getattr(aten, one.op, None)
    for overload in ("Tensor", "default"):
        if not one.attributes and overload in (overloads.overloads() if overloads else ()):
            return getattr(overloads, overload), lambda *operands: operands
    return None


COMPARED = {name: found for name in CASES if (found := counterpart(name)) is not None}


def test_every_operator_is_compared() -> None:
    assert {CASES[name].op for name in COMPARED} == set(OPS) - set(WITHOUT)
    assert set(ATEN) <= set(CASES)
    assert set(WRONG) <= set(COMPARED)


@pytest.mark.parametrize("name", COMPARED)
def test_rows_are_covered(name: str, mesh: Any) -> None:
    one = CASES[name]
    op, build = COMPARED[name]
    theirs = dtensor.rows(op, build, operands_of(one), len(one.results), mesh)
    assert theirs, f"{op} has no rows for {name}"
    missing = theirs - rows(one)
    assert missing - refused_rows(name) == WRONG.get(name, set())
    for row in WRONG.get(name, set()):
        assert not is_right(one, row), f"{name} refuses {row} without need"
