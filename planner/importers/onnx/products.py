"""Products, convolutions, pools and norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.symbol import Polynomial, Size
from ..aten.program import Argument, Ref
from .elements import Row
from .site import Site


def _matmul(at: Site) -> Ref:
    """Return a product; with a matrix of the file on the right it is a linear layer, whose weight is `[out, in]`."""
    x = at.ref(0)
    if at.is_weight(1) and len(at.shape(x)) > 1 and (weight := at.turned(1)) is not None:
        return linear(at, x, weight)
    y = at.ref(1)
    left, right = at.shape(x), at.shape(y)
    if len(left) < 2 or len(right) < 2:
        made = (*left[:-1], *right[:-2], *right[-1:]) if len(right) > 1 else left[:-1] if right else ()
        return at.call("aten.matmul.default", x, y, shape=made, dtype=at.meta(x).dtype)
    if left[-1] != right[-2]:
        at.refuse(f"of {at.meta(x)} and {at.meta(y)}, whose inner sizes differ")
    shape = (*at.broadcast(left[:-2], right[:-2]), left[-2], right[-1])
    return at.call("aten.matmul.default", x, y, shape=shape, dtype=at.meta(x).dtype)


def linear(at: Site, x: Ref, weight: Ref, *bias: Ref) -> Ref:
    """Return `x · weightᵀ + bias`."""
    width, inner = at.shape(weight)
    if at.shape(x)[-1:] != (inner,):
        at.refuse(f"of {at.meta(x)} and a weight of {at.meta(weight)}, whose inner sizes differ")
    shape = (*at.shape(x)[:-1], width)
    return at.call("aten.linear.default", x, weight, *bias, shape=shape, dtype=at.meta(x).dtype)


def _gemm(at: Site) -> Ref:
    x = at.ref(0)
    if at.real("alpha", 1.0) != 1 or at.real("beta", 1.0) != 1:
        at.refuse("that scales its product or its bias")
    if at.integer("transA"):
        x = _turned(at, x)
    if at.integer("transB"):
        weight = at.ref(1)
    else:
        turned = at.turned(1) if at.is_weight(1) else None
        weight = _turned(at, at.ref(1)) if turned is None else turned
    if not at.given(2):
        return linear(at, x, weight)
    bias = at.ref(2, "bias")
    if at.shape(bias) == at.shape(weight)[:1]:
        return linear(at, x, weight, bias)
    made = linear(at, x, weight)
    return at.call(
        "aten.add.Tensor", made, bias, shape=at.broadcast(at.shape(made), at.shape(bias)), dtype=at.meta(made).dtype
    )


def _turned(at: Site, x: Ref) -> Ref:
    if len(at.shape(x)) != 2:
        at.refuse(f"of {at.meta(x)}, which is no matrix")
    return at.call("aten.t.default", x, shape=at.shape(x)[::-1], dtype=at.meta(x).dtype)


def _spatial(at: Site, rank: int, name: str, default: int) -> tuple[int, ...]:
    values = at.listed(name) or (default,) * rank
    if len(values) != rank:
        at.refuse(f"whose {name} has {len(values)} numbers for {rank} dims")
    return values


def _padding(at: Site, rank: int) -> tuple[int, ...]:
    if at.text("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        at.refuse("that chooses its padding by itself", "Export the model with explicit padding.")
    pads = at.listed("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank or pads[:rank] != pads[rank:]:
        at.refuse("that pads one side more than the other")
    return pads[:rank]


def _window(at: Site, sizes: Sequence[Size], kernel: Sequence[Size], pads: Sequence[int], strides: Sequence[int],
            dilations: Sequence[int]) -> list[Size]:  # fmt: skip
    """Return the sizes after a window went over them; a size that depends on symbols has to stay."""
    made: list[Size] = []
    for size, width, pad, stride, dilation in zip(sizes, kernel, pads, strides, dilations, strict=True):
        if isinstance(width, Polynomial) or stride < 1 or dilation < 1 or width < 1:
            at.refuse("whose window has no positive sizes")
        total = 2 * pad - dilation * (width - 1) - 1
        if isinstance(size, Polynomial):
            if stride != 1:
                at.refuse("that strides over the batch or the sequence", "Export the model with fixed sizes there.")
            made.append(size + total + 1)
        else:
            made.append((size + total) // stride + 1)
    return made


def _convolution(at: Site) -> Ref:
    x, weight = at.ref(0), at.ref(1)
    shape, kernel = at.shape(x), at.shape(weight)
    rank = len(shape) - 2
    if rank not in {1, 2, 3} or len(kernel) != len(shape):
        at.refuse(f"over {rank} dims")
    strides, dilations = _spatial(at, rank, "strides", 1), _spatial(at, rank, "dilations", 1)
    pads = _padding(at, rank)
    made = (shape[0], kernel[0], *_window(at, shape[2:], kernel[2:], pads, strides, dilations))
    bias = at.ref(2, "bias") if at.given(2) else None
    return at.call(
        f"aten.conv{rank}d.default", x, weight, bias, strides, pads, dilations, at.integer("group", 1),
        shape=made, dtype=at.meta(x).dtype,
    )  # fmt: skip


def _transposed(at: Site) -> Ref:
    x, weight = at.ref(0), at.ref(1)
    shape, kernel = at.shape(x), at.shape(weight)
    rank = len(shape) - 2
    if rank not in {1, 2, 3} or len(kernel) != len(shape) or at.listed("output_shape"):
        at.refuse(f"over {rank} dims, or to a given shape")
    strides, dilations = _spatial(at, rank, "strides", 1), _spatial(at, rank, "dilations", 1)
    pads, more = _padding(at, rank), _spatial(at, rank, "output_padding", 0)
    groups = at.integer("group", 1)
    made: list[Size] = [shape[0], kernel[1] * groups]
    for size, width, stride, dilation, pad, extra in zip(
        shape[2:], kernel[2:], strides, dilations, pads, more, strict=True
    ):
        made.append((size + -1) * stride + (width + -1) * dilation + (1 + extra - 2 * pad))
    bias = at.ref(2, "bias") if at.given(2) else None
    target = "aten.conv_transpose1d.default" if rank == 1 else f"aten.conv_transpose{rank}d.input"
    return at.call(target, x, weight, bias, strides, pads, more, groups, dilations, shape=made, dtype=at.meta(x).dtype)


def _pool(target: str) -> Row:
    def row(at: Site) -> Ref:
        x = at.ref(0)
        shape = at.shape(x)
        rank = len(shape) - 2
        if rank not in {1, 2, 3} or at.integer("ceil_mode") or len(at.node.outputs) > 1:
            at.refuse(f"over {rank} dims, beyond the padding, or with the places of the largest")
        kernel = _spatial(at, rank, "kernel_shape", 1)
        strides, dilations = _spatial(at, rank, "strides", 1), _spatial(at, rank, "dilations", 1)
        pads = _padding(at, rank)
        made = (*shape[:2], *_window(at, shape[2:], kernel, pads, strides, dilations))
        arguments: tuple[Argument, ...] = (kernel, strides, pads)
        if target == "max_pool":
            arguments += (dilations,)
        else:
            arguments += (False, bool(at.integer("count_include_pad")) or not any(pads))
        return at.call(f"aten.{target}{rank}d.default", x, *arguments, shape=made, dtype=at.meta(x).dtype)

    return row


def _global_average(at: Site) -> Ref:
    x = at.ref(0)
    shape = at.shape(x)
    dims = tuple(range(2, len(shape)))
    made = (*shape[:2], *[1] * len(dims))
    return at.call("aten.mean.dim", x, dims, True, shape=made, dtype=at.meta(x).dtype)


def _batch_norm(at: Site) -> Ref:
    """Normalise by the statistics of the batch, as training does; the file's own are not read."""
    x = at.ref(0)
    return at.like(
        "aten.batch_norm.default", x, at.ref(1, "weight"), at.ref(2, "bias"), None, None, True, 0.1,
        at.real("epsilon", 1e-5), False,
    )  # fmt: skip


def _normalised(at: Site, x: Ref) -> tuple[int, ...]:
    shape = at.shape(x)
    axis = at.dim(at.integer("axis", -1), len(shape))
    sizes = tuple(size for size in shape[axis:] if isinstance(size, int))
    if len(sizes) != len(shape) - axis:
        at.refuse("over the batch or the sequence")
    return sizes


def _layer_norm(at: Site) -> Ref:
    x = at.ref(0)
    if len([name for name in at.node.outputs if name]) > 1:
        at.refuse("that gives its statistics")
    bias = at.ref(2, "bias") if at.given(2) else None
    return at.like("aten.layer_norm.default", x, _normalised(at, x), at.ref(1), bias, at.real("epsilon", 1e-5))


def _rms_norm(at: Site) -> Ref:
    x = at.ref(0)
    return at.like("aten.rms_norm.default", x, _normalised(at, x), at.ref(1), at.real("epsilon", 1e-5))


def _group_norm(at: Site) -> Ref:
    x = at.ref(0)
    groups = at.integer("num_groups", 0)
    channels = at.shape(x)[1:2]
    if groups < 1 or not channels or at.shape(1) != channels:
        at.refuse("with a scale for each group", "Export the model with opset 21 or later.")
    return at.like("aten.group_norm.default", x, groups, at.ref(1), at.ref(2, "bias"), at.real("epsilon", 1e-5), False)


def _instance_norm(at: Site) -> Ref:
    x = at.ref(0)
    return at.like(
        "aten.instance_norm.default", x, at.ref(1), at.ref(2, "bias"), None, None, True, 0.1,
        at.real("epsilon", 1e-5), False,
    )  # fmt: skip


def _softmax(target: str) -> Row:
    def row(at: Site) -> Ref:
        x = at.ref(0)
        return at.like(f"aten.{target}.int", x, at.dim(at.integer("axis", -1), len(at.shape(x))))

    return row


def _einsum(at: Site) -> Ref:
    equation = at.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    sides = left.split(",")
    refs = [at.ref(place) for place in range(len(at.node.inputs))]
    sizes: dict[str, Size] = {}
    if not arrow or "." in equation or len(sides) != len(refs):
        at.refuse(f"with the equation {equation[:60]!r}", "Write result and dims out, without dots.")
    for side, ref in zip(sides, refs, strict=True):
        if len(side) != len(at.shape(ref)):
            at.refuse(f"with the equation {equation[:60]!r} for {at.meta(ref)}")
        sizes |= dict(zip(side, at.shape(ref), strict=True))
    if not set(right) <= sizes.keys():
        at.refuse(f"with the equation {equation[:60]!r}")
    made = tuple(sizes[letter] for letter in right)
    return at.call("aten.einsum.default", equation, tuple(refs), shape=made, dtype=at.meta(refs[0]).dtype)


def _scaled(at: Site, shape: Sequence[Size]) -> tuple[Size, ...]:
    """Return the sizes of images after scales that the file holds."""
    tensor = at.all.tensors.get(at.name(2))
    scales = tensor.values if tensor is not None and tensor.values is not None else ()
    if len(scales) != len(shape):
        at.refuse("whose scales are computed of data")
    pairs = list(zip(shape, scales, strict=True))
    if any((isinstance(size, Polynomial) and scale != 1) or not 0 < scale < 1e6 for size, scale in pairs):
        at.refuse("that scales the batch or the sequence")
    return tuple(size if isinstance(size, Polynomial) else int(size * scale) for size, scale in pairs)


def _resize(at: Site) -> Ref:
    """Make images of another size; how places are matched has to be what torch does."""
    x = at.ref(0)
    shape = at.shape(x)
    rank = len(shape) - 2
    if rank not in {1, 2, 3}:
        at.refuse(f"over {rank} dims")
    if at.given(3):
        sizes = at.sizes(3)
    elif at.given(2):
        sizes = _scaled(at, shape)
    else:
        at.refuse("whose sizes are computed of data")
    mode, match = at.text("mode", "nearest"), at.text("coordinate_transformation_mode", "half_pixel")
    if len(sizes) != len(shape) or sizes[:2] != shape[:2]:
        at.refuse("that changes batch or channels")
    if mode == "nearest" and match == "asymmetric" and at.text("nearest_mode", "round_prefer_floor") == "floor":
        target = f"aten.upsample_nearest{rank}d.default"
    elif mode == "linear" and match in {"half_pixel", "pytorch_half_pixel"}:
        name = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}[rank]
        return at.call(f"aten.upsample_{name}.default", x, sizes[2:], False, shape=sizes, dtype=at.meta(x).dtype)
    else:
        at.refuse(f"of the kind {mode[:20]}, {match[:20]}")
    return at.call(target, x, sizes[2:], shape=sizes, dtype=at.meta(x).dtype)


def _attention(at: Site) -> Ref:
    """Return attention of `[batch, heads, length, width]`; with grouped heads, keys have fewer."""
    q, k, v = (at.ref(place) for place in range(3))
    if any(len(at.shape(x)) != 4 for x in (q, k, v)) or len([n for n in at.node.outputs if n]) > 1 or at.given(4):
        at.refuse("that is not of four dims alone", "Export the model without a cache of keys.")
    if at.real("softcap", 0.0) != 0:
        at.refuse("with a bound on its scores")
    mask = at.ref(3) if at.given(3) else None
    shape = (*at.shape(q)[:3], at.shape(v)[3])
    keywords: dict[str, Argument] = {"scale": at.real("scale", 0.0)} if "scale" in at.node.attributes else {}
    if at.shape(q)[1] != at.shape(k)[1]:
        keywords["enable_gqa"] = True
    return at.call(
        "aten.scaled_dot_product_attention.default", q, k, v, mask, 0.0, bool(at.integer("is_causal")), shape=shape,
        dtype=at.meta(q).dtype, named=keywords,
    )  # fmt: skip


def _shuffle(at: Site) -> Ref:
    x, block = at.ref(0), at.integer("blocksize", 1)
    shape = at.shape(x)
    if len(shape) != 4 or at.text("mode", "DCR") != "CRD" or not isinstance(shape[1], int) or block < 1:
        at.refuse("of another order than torch's")
    made = (shape[0], shape[1] // block**2, shape[2] * block, shape[3] * block)
    return at.call("aten.pixel_shuffle.default", x, block, shape=made, dtype=at.meta(x).dtype)


PRODUCTS: Mapping[str, Row] = {
    "MatMul": _matmul, "Gemm": _gemm, "Conv": _convolution, "ConvTranspose": _transposed, "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("avg_pool"), "GlobalAveragePool": _global_average, "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm, "RMSNormalization": _rms_norm, "SimplifiedLayerNormalization": _rms_norm,
    "GroupNormalization": _group_norm, "InstanceNormalization": _instance_norm, "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"), "Einsum": _einsum, "Resize": _resize, "Attention": _attention,
    "DepthToSpace": _shuffle,
}  # fmt: skip
"""ONNX operator → its row."""
