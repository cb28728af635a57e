"""Nodes of the operator families that models outside of decoders need, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_families(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    families = (
        _elementwise,
        _softmax,
        _norms,
        _products,
        _convolutions,
        _pools,
        _attentions,
        _losses,
        _experts,
        _others,
    )
    return {name: one for family in families for name, one in family(node, meta).items()}


def _elementwise(node: Make, meta: Meta) -> dict[str, Node]:
    stream, mask = meta(4, 8), meta(4, 8, dtype="bool")
    names = "neg abs exp log sqrt rsqrt reciprocal sin cos erf relu elu softplus silu mish sigmoid tanh hardswish"
    names += " detach floor ceil round sign receive"
    return {name: node(name, stream) for name in names.split()} | {
        "sub": node("sub", stream, stream),
        "mul": node("mul", stream, stream),
        "div": node("div", stream, stream),
        "floor_divide": node("floor_divide", stream, stream),
        "remainder": node("remainder", stream, stream),
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


def _products(node: Make, meta: Meta) -> dict[str, Node]:
    return {
        "matmul": node("matmul", meta(4, 6), meta(6, 8)),
        "matmul-batch": node("matmul", meta(4, 2, 6), meta(4, 6, 8)),
        "matmul-repeated": node("matmul", meta(4, 2, 2, 6), meta(2, 6, 4)),
        "matmul-one": node("matmul", meta(4, 2, 6), meta(1, 6, 4)),
        "expert_linear": node("expert_linear", meta(4, 6, 8), meta(4, 2, 8)),
        "expert_linear-batch": node("expert_linear", meta(4, 2, 4, 8), meta(4, 2, 8)),
    }


def _convolutions(node: Make, meta: Meta) -> dict[str, Node]:
    line, image, grouped = meta(2, 4, 8), meta(2, 2, 8, 4), {"groups": 2}
    return {
        "convolution": node("convolution", line, meta(6, 4, 3), meta(6), padding=(1,)),
        "convolution-patches": node("convolution", image, meta(4, 2, 2, 2), stride=(2, 2)),
        "convolution-valid": node("convolution", line, meta(4, 4, 3)),
        "convolution-strided": node("convolution", line, meta(2, 4, 4), meta(2), stride=(2,), padding=(1,)),
        "convolution-dilated": node("convolution", line, meta(2, 4, 3), padding=(2,), dilation=(2,)),
        "convolution-grouped": node("convolution", line, meta(4, 2, 3), meta(4), padding=(1,), **grouped),
        "convolution-depthwise": node("convolution", line, meta(4, 1, 3), groups=4),
        "convolution-plane": node("convolution", image, meta(2, 2, 3, 3), padding=(1, 1)),
        "convolution-blocks": node(
            "convolution", meta(2, 2, 12), meta(2, 2, 3), stride=(2,), padding=(0,), blocks=(2,)
        ),
        "conv_transpose": node("conv_transpose", line, meta(4, 6, 3), meta(6), padding=(1,)),
        "conv_transpose-patches": node("conv_transpose", image, meta(2, 4, 2, 2), stride=(2, 2)),
        "conv_transpose-grouped": node("conv_transpose", line, meta(4, 3, 2), stride=(2,), **grouped),
        "borders": node("borders", line, dim=2, blocks=2, before=1, after=2),
        "extend": node("extend", line, meta(2, 4, 6), dim=2, blocks=2, before=1, after=2, fill=0.0),
        "extend-filled": node("extend", line, meta(2, 4, 6), dim=2, blocks=2, before=1, after=2, fill=-1.5),
    }


def _pools(node: Make, meta: Meta) -> dict[str, Node]:
    line, image = meta(2, 4, 8), meta(2, 2, 8, 4)
    return {
        "max_pool": node("max_pool", line, kernel=(2,)),
        "max_pool-halo": node("max_pool", line, kernel=(3,), stride=(1,), padding=(1,)),
        "max_pool-valid": node("max_pool", line, kernel=(3,), stride=(1,)),
        "max_pool-plane": node("max_pool", image, kernel=(3, 3), stride=(2, 2), padding=(1, 1)),
        "average_pool": node("average_pool", image, kernel=(2, 2)),
        "average_pool-halo": node("average_pool", line, kernel=(4,), stride=(2,), padding=(1,)),
        "adaptive_average_pool": node("adaptive_average_pool", image, size=(1, 1)),
        "adaptive_average_pool-two": node("adaptive_average_pool", line, size=(2,)),
        "interpolate": node("interpolate", line, size=(16,), mode="nearest"),
        "interpolate-plane": node("interpolate", image, size=(8, 6), mode="nearest"),
        "interpolate-linear": node("interpolate", image, size=(16, 8), mode="linear"),
    }


def _attentions(node: Make, meta: Meta) -> dict[str, Node]:
    heads, groups, wide = meta(2, 4, 4, 4), meta(2, 2, 4, 4), meta(2, 4, 4, 6)
    others, scores, sinks = meta(2, 2, 6, 4), meta(2, 4, 4, 6), meta(4)
    numbers = meta(2, 4, 4, dtype="float32")
    shown, some = meta(2, 4, 4, 4, dtype="bool"), meta(2, 1, 1, 6, dtype="bool")
    return {
        "attention-softcap": node("attention", heads, groups, groups, softcap=1.5, scale=0.25),
        "attention-dropout": node("attention", heads, heads, wide, dropout=0.25, seed=7),
        "full_attention-softcap": node("full_attention", heads, groups, groups, meta(1, 4, 4, 4), softcap=1.5),
        "masked_attention": node("masked_attention", heads, groups, groups, shown),
        "masked_attention-keys": node("masked_attention", heads, others, others, some, scale=0.5),
        "sink_attention": node("sink_attention", heads, groups, groups, sinks),
        "sink_attention-window": node("sink_attention", heads, heads, heads, sinks, window=2, scale=0.75, dropout=0.5),
        "window_attention-chunk": node("window_attention", heads, groups, groups, chunk=2),
        "window_attention-reach": node("window_attention", heads, heads, heads, reach=1),
        "hide_future-chunk": node("hide_future", meta(2, 2, 4, 4), chunk=2),
        "hide_future-reach": node("hide_future", meta(2, 2, 4, 4), reach=1),
        "attention-wide": node("attention", heads, heads, wide, scale=0.25),
        "window_attention": node("window_attention", heads, groups, groups, window=2),
        "full_attention": node("full_attention", heads, groups, groups),
        "full_attention-cross": node("full_attention", heads, others, others),
        "full_attention-bias": node("full_attention", heads, heads, heads, meta(1, 4, 4, 4)),
        "full_attention-mask": node("full_attention", heads, groups, groups, meta(2, 1, 1, 4), scale=0.5),
        "attention_scores": node("attention_scores", heads, others),
        "attention_scores-scale": node("attention_scores", heads, heads, scale=0.25),
        "hide_future": node("hide_future", meta(2, 2, 4, 4)),
        "hide_future-window": node("hide_future", meta(2, 2, 4, 4), window=2),
        "sink_max": node("sink_max", numbers, sinks),
        "add_sink": node("add_sink", numbers, numbers, sinks),
        "attend": node("attend", scores, others),
    }


def _losses(node: Make, meta: Meta) -> dict[str, Node]:
    stream, logits, labels = meta(4, 2, 6), meta(4, 2, 8), meta(4, 2, dtype="int64")
    smooth = {"ignore_index": -100, "label_smoothing": 0.1}
    return {
        "mse_loss": node("mse_loss", stream, stream),
        "mse_loss-sum": node("mse_loss", stream, stream, reduction="sum"),
        "l1_loss": node("l1_loss", stream, stream),
        "huber_loss": node("huber_loss", stream, stream, delta=0.5),
        "smooth_l1_loss": node("smooth_l1_loss", stream, stream, beta=0.5),
        "bce_with_logits": node("bce_with_logits", stream, stream),
        "kl_div": node("kl_div", stream, stream, reduction="batchmean", log_target=True),
        "cross_entropy-smooth": node("cross_entropy", logits, labels, **smooth),
        "token_loss-smooth": node("token_loss", logits, labels, **smooth),
        "pick_target-smooth": node("pick_target", logits, labels, **smooth),
    }


def _experts(node: Make, meta: Meta) -> dict[str, Node]:
    slots, tokens = meta(2, 4, 4, 2), meta(2, 4, 6)
    return {
        "route": node("route", meta(4, 6, 4), count=2, capacity=2, normalized=True),
        "route-plain": node("route", meta(4, 6, 4), count=1, capacity=3, normalized=False),
        "place": node("place", meta(4, 4, 2), meta(4, 4, 2, dtype="int64"), experts=4),
        "place-drops": node("place", meta(4, 4, 2), meta(4, 4, 2, dtype="int64"), experts=2, capacity=2),
        "dispatch": node("dispatch", slots, tokens),
        "collect": node("collect", slots, meta(4, 2, 2, 6)),
    }


def _others(node: Make, meta: Meta) -> dict[str, Node]:
    steps, square = meta(4, 3, 4), meta(4, 4)
    call = {"target": "aten.linalg_matrix_exp.default", "arguments": "x0", "results": "compute[4, 4]"}
    return {
        "lstm": node("lstm", steps, meta(8, 4), meta(8, 2), meta(8), meta(8)),
        "gru": node("gru", steps, meta(6, 4), meta(6, 2), meta(6), meta(6)),
        "rnn": node("rnn", steps, meta(2, 4), meta(2, 2)),
        "unknown": node("unknown", square, **call),
    }
