"""docs/reference/mindspore-operators.md names every family of MindSpore's rules, and only operators that we have."""

import re
from pathlib import Path

from planner.ops import OPS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "mindspore-operators.md").read_text("utf-8")
FAMILIES = (
    "activation", "addn", "arithmetic", "batch_parallel", "batchnorm", "bias_add", "bounding_box_encode",
    "broadcast_to", "cdist", "comparison_function", "concat", "conv2d", "conv3d", "crop_and_resize",
    "dropout_do_mask", "dsd_matmul", "elementary_function", "gamma", "gather", "gatherd", "gathernd", "get_next",
    "inplace_op", "iou", "kldiv_loss", "l2_normalize", "layer_norm", "lin_space", "loss", "matmul_dds", "matmul",
    "maxpool", "onehot", "pack", "prelu", "random_choice_with_mask", "range", "reduce_method", "reluv2", "reshape",
    "resizebilinear", "roi_align", "scatter_math", "scatter_nd", "scatter_ops", "select", "slice", "split",
    "strided_slice", "tensordot", "tile", "tmp_identity", "topk", "transpose", "uniform_candidate_sampler",
    "uniform_real", "unique", "unsorted_segment", "virtual_dataset", "virtual_output",
    # Those of later versions.
    "flash_attention", "flash_attention_score", "fused_infer", "paged", "prompt", "incre", "qkv", "ffn",
    "grouped matmul", "moe_ffn", "moe_finalize_routing", "moe_topk_router", "rms_norm", "rotary", "group_norm",
    "cum ops", "fft", "grid_sampler2d", "pad", "quant", "random", "tril", "self_define_shard", "stand_alone",
)  # fmt: skip
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| MindSpore"))
]


def test_every_family_is_named() -> None:
    named = {word for family, _, _ in ROWS for word in re.split(r", | and ", family)}
    words = {word for family, _, _ in ROWS for word in re.findall(r"\w+", family)}
    assert [f for f in FAMILIES if f not in named | words and not any(f in n for n in named)] == []


def test_every_row_has_an_operator_or_a_reason() -> None:
    for family, ours, why in ROWS:
        names = re.findall(r"`(\w+)`", ours)
        assert names or ours == "blocked", family
        assert set(names) <= OPS.keys(), f"{family}: {set(names) - OPS.keys()}"
        assert names or why, f"{family} is blocked without a reason"
