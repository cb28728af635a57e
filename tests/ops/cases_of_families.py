"""Nodes of the operator families that models outside of decoders need, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_families(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    return _elementwise(node, meta) | _softmax(node, meta) | _norms(node, meta)


def _elementwise(node: Make, meta: Meta) -> dict[str, Node]:
    stream, mask = meta(4, 8), meta(4, 8, dtype="bool")
    names = "neg abs exp log sqrt rsqrt reciprocal sin cos erf relu elu softplus silu sigmoid tanh hardswish"
    return {name: node(name, stream) for name in names.split()} | {
        "sub": node("sub", stream, stream),
        "mul": node("mul", stream, stream),
        "div": node("div", stream, stream),
        "maximum": node("maximum", stream, stream),
        "minimum": node("minimum", stream, stream),
        "add-scalar": node("add", stream, meta()),
        "add-last": node("add", meta(4, 4, 8), meta(8)),
        "mul-repeated": node("mul", meta(4, 1, 8), meta(4, 1)),
        "mul-last": node("mul", stream, meta(8)),
        "div-repeated": node("div", stream, meta(4, 1)),
        "scale": node("scale", stream, factor=0.5),
        "shift": node("shift", stream, amount=1.5),
        "pow": node("pow", stream, exponent=3),
        "clamp": node("clamp", stream, low=-0.5, high=0.75),
        "leaky_relu": node("leaky_relu", stream, slope=0.1),
        "gelu": node("gelu", stream, approximate="none"),
        "gelu-tanh": node("gelu", stream, approximate="tanh"),
        "geglu": node("geglu", stream, stream, approximate="none"),
        "prelu": node("prelu", meta(4, 4, 8), meta(4)),
        "cast": node("cast", stream, dtype="float64"),
        "to_integer": node("to_integer", stream, dtype="int64"),
        "where": node("where", mask, stream, stream),
        "where-repeated": node("where", meta(4, 1, dtype="bool"), stream, meta()),
        "masked_fill": node("masked_fill", stream, mask, value=0.0),
        "masked_fill-infinite": node("masked_fill", stream, mask, value=1e4),
        "compare": node("compare", stream, stream, relation="lt"),
        "compare-repeated": node("compare", stream, meta(8), relation="ge"),
        "logical_not": node("logical_not", mask),
        "logical_and": node("logical_and", mask, mask),
        "logical_or": node("logical_or", mask, mask),
    }


def _softmax(node: Make, meta: Meta) -> dict[str, Node]:
    stream, rows = meta(4, 4, 8), meta(4, 4, dtype="float32")
    return {
        "softmax": node("softmax", stream),
        "softmax-middle": node("softmax", stream, dim=1),
        "softmax_scale": node("softmax_scale", stream, rows, rows),
        "log_softmax": node("log_softmax", stream, dim=2),
        "log_softmax_shift": node("log_softmax_shift", stream, rows, rows),
        "row_max-first": node("row_max", meta(8, 4), dim=0),
        "sum_exp-middle": node("sum_exp", meta(4, 8, 4), rows, dim=1),
    }


def _norms(node: Make, meta: Meta) -> dict[str, Node]:
    stream, h = meta(4, 2, 8), meta(8)
    image, c, groups = meta(4, 8, 2, 4), meta(8), {"groups": 2, "eps": 1e-5}
    layer, batch, group = ({"form": f"{kind}_norm", "eps": 1e-5} for kind in ("layer", "batch", "group"))
    group |= groups
    return {
        "layer_norm": node("layer_norm", stream, h, h, eps=1e-5),
        "layer_norm-weight": node("layer_norm", stream, h, eps=1e-5),
        "layer_norm-plain": node("layer_norm", stream, eps=1e-5),
        "layer_norm-two": node("layer_norm", meta(4, 2, 8), meta(2, 8), meta(2, 8), eps=1e-5, dims=2),
        "batch_norm": node("batch_norm", image, c, c, eps=1e-5),
        "batch_norm-line": node("batch_norm", meta(4, 8, 4), c, c, eps=1e-5),
        "batch_norm-flat": node("batch_norm", meta(4, 8), eps=1e-5),
        "group_norm": node("group_norm", image, c, c, **groups),
        "group_norm-plain": node("group_norm", meta(4, 8, 4), **groups),
        "l2_norm": node("l2_norm", stream, eps=1e-12),
        "l2_norm-first": node("l2_norm", stream, eps=1e-12, dim=0),
        "l2_scale": node("l2_scale", stream, meta(4, 2, dtype="float32"), eps=1e-12),
        "mean_square-first": node("mean_square", stream, width=1, dim=0),
        "moments": node("moments", stream, **layer),
        "moments-batch": node("moments", image, **batch),
        "moments-group": node("moments", image, **group),
        "normalize": node("normalize", stream, meta(4, 2, 2, dtype="float32"), h, h, **layer),
        "normalize-plain": node("normalize", stream, meta(4, 2, 2, dtype="float32"), **layer),
        "normalize-batch": node("normalize", image, meta(8, 2, dtype="float32"), c, c, **batch),
        "normalize-group": node("normalize", image, meta(4, 2, 2, dtype="float32"), c, c, **group),
    }
