"""Convolutions, pools and changes of size over spatial dims."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.graph import Attribute
from .parts import padded
from .site import Row, Site, UnloweredError


def _batched(at: Site, x: str, count: int) -> tuple[str, bool]:
    """Return x with a dim of samples, and whether it had none."""
    alone = at.rank(x) == count + 1
    return (at.unsqueezed(x, 0) if alone else x), alone


def _spread(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return values * count if len(values) == 1 else values


def _convolution(count: int) -> Row:
    def row(at: Site) -> str:
        x, alone = _batched(at, at.x(0, "input"), count)
        weight = at.x(1, "weight")
        stride, dilation = (_spread(at.integers(place, name, (1,)), count) for place, name in
                            ((3, "stride"), (5, "dilation")))  # fmt: skip
        padding = at.argument(4, "padding", 0)
        if isinstance(padding, str):
            x, pads = _same_padding(at, x, weight, dilation, padding)
        else:
            pads = _spread(at.integers(4, "padding", (0,)), count)
        given: dict[str, Attribute] = {"stride": stride, "padding": pads, "dilation": dilation}
        made = convolved(at, x, weight, given | {"groups": at.integer(6, "groups", 1)})
        return at.squeezed(made, 0) if alone else made

    return row


def convolved(at: Site, x: str, weight: str, attributes: Mapping[str, Attribute], op: str = "convolution") -> str:
    """Return a convolution with the bias of the call, if it has one."""
    operands = [x, weight] + ([at.x(2, "bias")] if at.given(2, "bias") else [])
    return at.node(op, *operands, **attributes)


def _same_padding(
    at: Site, x: str, weight: str, dilation: tuple[int, ...], padding: str
) -> tuple[str, tuple[int, ...]]:  # fmt: skip
    """Return x and a padding that keeps the size; where a side needs more than the other, x is padded before."""
    if padding == "valid":
        return x, (0,) * len(dilation)
    kernel = at.meta(weight).shape[2:]
    totals = [d * (int(k) - 1) for d, k in zip(dilation, kernel, strict=True) if isinstance(k, int)]
    if all(total % 2 == 0 for total in totals):
        return x, tuple(total // 2 for total in totals)
    pads = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
    return padded(at, x, pads, 0.0), (0,) * len(totals)


def _general(at: Site) -> str:
    """Lower the call that has all kinds of convolutions."""
    x = at.x(0, "input")
    count = at.rank(x) - 2
    given: dict[str, Attribute] = {
        name: _spread(at.integers(place, name, (default,)), count)
        for place, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    }
    given["groups"] = at.integer(8, "groups", 1)
    if at.flag(6, "transposed", False):
        given["output_padding"] = _spread(at.integers(7, "output_padding", (0,)), count)
        return convolved(at, x, at.x(1, "weight"), given, op="conv_transpose")
    return convolved(at, x, at.x(1, "weight"), given)


def _transposed(count: int) -> Row:
    def row(at: Site) -> str:
        x, alone = _batched(at, at.x(0, "input"), count)
        given: dict[str, Attribute] = {
            name: _spread(at.integers(place, name, (default,)), count)
            for place, name, default in
            ((3, "stride", 1), (4, "padding", 0), (5, "output_padding", 0), (7, "dilation", 1))
        }  # fmt: skip
        given["groups"] = at.integer(6, "groups", 1)
        made = convolved(at, x, at.x(1, "weight"), given, op="conv_transpose")
        return at.squeezed(made, 0) if alone else made

    return row


def _max_pool(count: int) -> Row:
    def row(at: Site) -> str:
        x, alone = _batched(at, at.x(0, "self"), count)
        kernel = _spread(at.integers(1, "kernel_size"), count)
        stride = at.integers(2, "stride") if at.given(2, "stride") else ()
        if at.flag(5, "ceil_mode", False):
            raise UnloweredError("its last window may reach beyond the padding")
        if 1 in at.used:
            raise UnloweredError("where the largest entries are is asked for")
        made = at.node(
            "max_pool", x, kernel=kernel, stride=_spread(stride or kernel, count),
            padding=_spread(at.integers(3, "padding", (0,)), count),
            dilation=_spread(at.integers(4, "dilation", (1,)), count),
        )  # fmt: skip
        return at.squeezed(made, 0) if alone else made

    return row


def _average_pool(count: int) -> Row:
    def row(at: Site) -> str:
        x, alone = _batched(at, at.x(0, "self"), count)
        kernel = _spread(at.integers(1, "kernel_size"), count)
        stride = at.integers(2, "stride") if at.given(2, "stride") else ()
        padding = _spread(at.integers(3, "padding", (0,)), count)
        if at.flag(4, "ceil_mode", False) or at.given(6, "divisor_override"):
            raise UnloweredError("it divides by something else than the size of a window")
        if any(padding) and not at.flag(5, "count_include_pad", True):
            raise UnloweredError("it leaves the padding out of the average")
        made = at.node("average_pool", x, kernel=kernel, stride=_spread(stride or kernel, count), padding=padding)
        return at.squeezed(made, 0) if alone else made

    return row


def _adaptive_average(count: int) -> Row:
    def row(at: Site) -> str:
        x, alone = _batched(at, at.x(0, "self"), count)
        sizes = tuple(n for n in at.made.shape[-count:] if isinstance(n, int))
        if all(n == 1 for n in sizes) and not all(isinstance(n, int) for n in at.meta(x).shape[-count:]):
            made = at.node("mean", x, dims=tuple(range(2, 2 + count)), keepdim=True)
        else:
            made = at.node("adaptive_average_pool", x, size=sizes)
        return at.squeezed(made, 0) if alone else made

    return row


def _resized(mode: str, corners: int | None) -> Row:
    """Return the row of an interpolation; the place of the argument that aligns corners, where it has one."""

    def row(at: Site) -> str:
        if corners is not None and at.flag(corners, "align_corners", False):
            raise UnloweredError("it aligns the corners")
        x = at.x(0, "self")
        sizes = tuple(n for n in at.made.shape[2:] if isinstance(n, int))
        if len(sizes) != len(at.made.shape) - 2:
            raise UnloweredError(f"its size {at.made.shape[2:]} depends on symbols")
        return at.node("interpolate", x, size=sizes, mode=mode)

    return row


def _pixel_shuffle(at: Site) -> str:
    x, r = at.x(0, "self"), at.integer(1, "upscale_factor")
    *lead, channels, height, width = at.meta(x).shape
    assert isinstance(channels, int)
    n = len(lead)
    x = at.reshaped(x, (*lead, channels // (r * r), r, r, height, width))
    x = at.permuted(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return at.reshaped(x, at.made.shape)


def _pixel_unshuffle(at: Site) -> str:
    x, r = at.x(0, "self"), at.integer(1, "downscale_factor")
    *lead, channels, height, width = at.meta(x).shape
    assert isinstance(height, int)
    assert isinstance(width, int)
    n = len(lead)
    x = at.reshaped(x, (*lead, channels, height // r, r, width // r, r))
    x = at.permuted(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return at.reshaped(x, at.made.shape)


SPACE: Mapping[str, Row] = {
    **{f"aten.conv{n}d.{form}": _convolution(n) for n in (1, 2, 3) for form in ("default", "padding")},
    "aten.convolution.default": _general,
    "aten.conv_transpose1d.default": _transposed(1),
    "aten.conv_transpose2d.input": _transposed(2),
    "aten.conv_transpose3d.input": _transposed(3),
    **{f"aten.max_pool{n}d{form}.default": _max_pool(n) for n in (1, 2, 3) for form in ("", "_with_indices")},
    **{f"aten.avg_pool{n}d.default": _average_pool(n) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": _adaptive_average(n) for n in (1, 2, 3)},
    **{f"aten.upsample_nearest{n}d.{form}": _resized("nearest", None)
       for n in (1, 2, 3) for form in ("vec", "default")},
    **{f"aten.upsample_{name}.{form}": _resized("linear", 2)
       for name in ("linear1d", "bilinear2d", "trilinear3d") for form in ("vec", "default")},
    "aten.pixel_shuffle.default": _pixel_shuffle,
    "aten.pixel_unshuffle.default": _pixel_unshuffle,
}  # fmt: skip
"""Calls over images and the like."""
