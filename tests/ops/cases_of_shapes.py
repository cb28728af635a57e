"""Nodes of the operators that move, pick, reduce and order along dims, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.symbol import parse
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_shapes(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    families = (_selections, _joins, _views, _reductions, _ordered, _indexed, _products, _constants)
    return {name: case for family in families for name, case in family(node, meta).items()}


def _selections(node: Make, meta: Meta) -> dict[str, Node]:
    x = meta(4, 8, 4)
    return {
        "slice": node("slice", x, dim=1, start=1, stop=5),
        "slice-step": node("slice", x, dim=1, start=0, stop=6, step=3),
        "slice-stride": node("slice", x, dim=1, start=1, step=2),
        "slice-open": node("slice", TensorMeta((4, parse("2·S"), 4)), dim=1, start=-5, size="S"),
        "slice-open-tail": node("slice", TensorMeta((4, parse("2·S"), 4)), dim=1, tail=True, size="S"),
        "slice-open-step": node("slice", TensorMeta((4, parse("2·S"), 4)), dim=1, start=1, step=2, size="-2 + S"),
        "select": node("select", x, dim=1, index=-3),
        "flip": node("flip", x, dim=1),
        "roll": node("roll", x, dim=1, shift=3),
        "pad": node("pad", x, dim=1, before=1, after=3),
        "pad-value": node("pad", x, dim=1, before=2, value=1.5),
    }


def _joins(node: Make, meta: Meta) -> dict[str, Node]:
    x, longer = meta(4, 4, 8), meta(4, 6, 8)
    return {
        "concat": node("concat", x, x, dim=1),
        "concat-unequal": node("concat", x, longer, dim=1),
        "concat-three": node("concat", x, x, x, dim=-1),
        "repeat": node("repeat", x, times=(1, 2, 1)),
        "repeat_interleave": node("repeat_interleave", x, dim=1, times=2),
        "split": node("split", x, dim=2, sizes=(4, 4)),
        "split-unequal": node("split", x, dim=2, sizes=(2, 6)),
        "stack": node("stack", x, x, dim=1),
    }


def _views(node: Make, meta: Meta) -> dict[str, Node]:
    return {
        "expand": node("expand", meta(4, 1, 8), sizes="4, 6, 8"),
        "expand-leading": node("expand", meta(4, 8), sizes="B, 4, 8"),
        "permute": node("permute", meta(4, 4, 8), dims=(1, 2, 0)),
        "reshape": node("reshape", meta(4, 4, 8), sizes="4, -1"),
        "reshape-apart": node("reshape", meta(4, 6, 2), sizes="6, 4, 2"),
        "reshape-flat": node("reshape", meta(4, 1, 8), sizes="32"),
        "reshape-ones": node("reshape", meta(1, 8, 4), sizes="8, 1, 2, 2"),
        "reshape-split": node("reshape", meta(4, 12), sizes="2, 2, 3, 4"),
        "squeeze": node("squeeze", meta(4, 1, 8), dim=1),
        "unsqueeze": node("unsqueeze", meta(4, 8), dim=1),
    }


def _reductions(node: Make, meta: Meta) -> dict[str, Node]:
    x, groups = meta(4, 4, 8), meta(4, 1, 8)
    return {
        "amax": node("amax", x, dims=(1,)),
        "amax-keepdim": node("amax", x, dims=(0, 2), keepdim=True),
        "amin": node("amin", x, dims=(2,)),
        "count_ties": node("count_ties", x, groups, dims=(1,)),
        "extremum": node("extremum", x, dims=(1,), largest=True),
        "extremum-least": node("extremum", x, dims=(1, 2), largest=False),
        "mean": node("mean", x, dims=(1,)),
        "mean-keepdim": node("mean", x, dims=(0, 2), keepdim=True),
        "share_ties": node("share_ties", x, groups, groups, dims=(1,)),
        "squared_deviation": node("squared_deviation", x, groups, dims=(1,)),
        "sum": node("sum", x, dims=(1, 2)),
        "sum-all": node("sum", x),
        "sum-keepdim": node("sum", x, dims=(0,), keepdim=True),
        "var": node("var", x, dims=(1,)),
        "var-keepdim": node("var", x, dims=(1, 2), correction=0, keepdim=True),
    }


def _ordered(node: Make, meta: Meta) -> dict[str, Node]:
    x, picked = meta(4, 8, 4), meta(4, 8, 4, dtype="int64")
    return {
        "argmax": node("argmax", x, dim=1),
        "argmin": node("argmin", x, dim=1),
        "block_add": node("block_add", x, meta(4, 4, 4), dim=1, shards=4),
        "block_cumsum": node("block_cumsum", x, dim=1, shards=4),
        "block_prod": node("block_prod", x, dim=1, shards=4),
        "block_sum": node("block_sum", x, dim=1, shards=4),
        "block_topk": node("block_topk", x, dim=1, shards=4, k=1),
        "block_topk-all": node("block_topk", x, dim=1, shards=4, k=3),
        "cumprod": node("cumprod", x, dim=1),
        "cumsum": node("cumsum", x, dim=1),
        "logcumsumexp": node("logcumsumexp", x, dim=1),
        "merge_arg": node("merge_arg", x, picked, dim=1),
        "merge_topk": node("merge_topk", x, picked, dim=1, k=2),
        "prefix_sum": node("prefix_sum", x, dim=1),
        "prod": node("prod", x, dim=1),
        "sort": node("sort", x, dim=1, descending=True),
        "topk": node("topk", x, dim=1, k=2),
        "topk-smallest": node("topk", x, dim=1, k=4, largest=False),
    }


def _indexed(node: Make, meta: Meta) -> dict[str, Node]:
    x, few, places = meta(4, 8, 4), meta(4, 4, 4), meta(4, dtype="int64")
    index, tokens = meta(4, 4, 4, dtype="int64"), meta(4, 4, dtype="int64")
    return {
        "embedding_bag": node("embedding_bag", tokens, meta(8, 4)),
        "embedding_bag-mean": node("embedding_bag", tokens, meta(8, 4), mode="mean"),
        "gather": node("gather", x, index, dim=1),
        "index_add": node("index_add", x, places, few, dim=1),
        "index_select": node("index_select", x, places, dim=1),
        "one_hot": node("one_hot", tokens, classes=8),
        "scatter": node("scatter", x, index, few, dim=1),
        "scatter_add": node("scatter_add", x, index, few, dim=1),
    }


def _products(node: Make, meta: Meta) -> dict[str, Node]:
    return {
        "addmm": node("addmm", meta(8), meta(4, 8), meta(8, 8)),
        "addmm-scaled": node("addmm", meta(4, 1), meta(4, 8), meta(8, 8), beta=0.5, alpha=2.0),
        "baddbmm": node("baddbmm", meta(4, 2, 8), meta(4, 2, 8), meta(4, 8, 8)),
        "einsum-bmm": node("einsum", meta(4, 2, 8), meta(4, 8, 6), equation="bij,bjk->bik"),
        "einsum-dot": node("einsum", meta(8), meta(8), equation="i,i->"),
        "einsum-mm": node("einsum", meta(4, 8), meta(8, 6), equation="ij,jk->ik"),
        "einsum-outer": node("einsum", meta(4), meta(6), equation="i,j->ij"),
    }


def _constants(node: Make, meta: Meta) -> dict[str, Node]:
    return {
        "arange": node("arange", sizes="S"),
        "arange-step": node("arange", sizes="S", start=1, step=3, dtype="float32"),
        "causal_mask": node("causal_mask", sizes="S, 8", diagonal=4),
        "causal_mask-window": node("causal_mask", sizes="4, 8", window=2),
        "causal_mask-reach": node("causal_mask", sizes="B, 2, S, 8", reach=1, fill=-1e4),
        "causal_mask-chunk": node("causal_mask", sizes="8, S", chunk=3),
        "causal_mask-fill": node("causal_mask", sizes="S, S", fill=-1e4),
        "constant": node("constant", sizes="2, 4", values=(3, 1, 4, 1, 5, 9, 2, 6)),
        "constant-flags": node("constant", sizes="4", values=(1, 0, 0, 1), dtype="bool"),
        "constant-numbers": node("constant", sizes="4, 2", values=tuple(i / 8 for i in range(8)), dtype="float32"),
        "full": node("full", sizes="B, 8", value=2.5),
        "tril": node("tril", meta(4, 4, 8), diagonal=1),
        "triu": node("triu", meta(4, 4, 8)),
    }
