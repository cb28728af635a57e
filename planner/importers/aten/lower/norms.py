"""Norms, softmax and dropout."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.symbol import Size
from .elements import shifted
from .site import Row, Site, UnloweredError


def _affine(at: Site, weight: int, bias: int) -> list[str]:
    """Return the weight and the bias that are given; a bias alone gets a weight of ones."""
    if not at.given(weight, "weight") and at.given(bias, "bias"):
        b = at.x(bias, "bias")
        return [at.full(at.meta(b).shape, 1.0, at.meta(b).dtype), b]
    return [at.x(place, name) for place, name in ((weight, "weight"), (bias, "bias")) if at.given(place, name)]


def _layer_norm(at: Site) -> str:
    dims = len(at.integers(1, "normalized_shape"))
    return at.node("layer_norm", at.x(0, "input"), *_affine(at, 2, 3), eps=at.real(4, "eps", 1e-5),
                   **({"dims": dims} if dims != 1 else {}))  # fmt: skip


def _rms_norm(at: Site) -> str:
    x = at.x(0, "input")
    shape = at.integers(1, "normalized_shape")
    if len(shape) != 1:
        raise UnloweredError(f"it normalises over {len(shape)} dims")
    dtype = at.meta(x).dtype
    weight = at.x(2, "weight") if at.given(2, "weight") else at.full(shape, 1.0, dtype)
    # Where none is given, torch takes the spacing of the numbers that it computes in.
    eps = 2.0**-52 if dtype == "float64" else 2.0**-23
    return at.node("rms_norm", x, weight, eps=at.real(3, "eps", eps))


def _group_norm(at: Site) -> str:
    return at.node("group_norm", at.x(0, "input"), *_affine(at, 2, 3), groups=at.integer(1, "num_groups"),
                   eps=at.real(4, "eps", 1e-5))  # fmt: skip


def _batch_norm(at: Site) -> str:
    """Normalise by the statistics of the batch, or by those that are known."""
    x, eps = at.x(0, "input"), at.real(7, "eps", 1e-5)
    if at.flag(5, "training", False):
        return at.node("batch_norm", x, *_affine(at, 1, 2), eps=eps)
    mean, var = at.x(3, "running_mean"), at.x(4, "running_var")
    shape: tuple[Size, ...] = (-1, *[1] * (at.rank(x) - 2))
    scale = at.node("rsqrt", shifted(at, var, eps))
    channels = at.meta(x).shape[1]
    made = at.node("mul", at.node("sub", x, at.reshaped(mean, (channels, *shape[1:]))),
                   at.reshaped(scale, (channels, *shape[1:])))  # fmt: skip
    for op, value in zip(("mul", "add"), _affine(at, 1, 2), strict=False):
        made = at.node(op, made, at.reshaped(value, (channels, *shape[1:])))
    return made


def _instance_norm(at: Site) -> str:
    """Normalise each channel of each sample: a group norm of one channel a group."""
    if not at.flag(5, "use_input_stats", True):
        raise UnloweredError("it uses running statistics")
    x = at.x(0, "input")
    channels = at.meta(x).shape[1]
    assert isinstance(channels, int)
    return at.node("group_norm", x, *_affine(at, 1, 2), groups=channels, eps=at.real(7, "eps", 1e-5))


def _softmax(op: str, dtype_at: int | None) -> Row:
    """Return the row of a softmax; one that is computed in another element type is cast before."""

    def row(at: Site) -> str:
        x = at.x(0, "self")
        if dtype_at is not None:
            x = at.cast(x, at.made.dtype)
        return at.node(op, x, dim=at.dim(1, "dim", at.rank(x)))

    return row


def _dropout(at: Site) -> str:
    """Drop a share of the elements; what is dropped where, its name tells it from other dropouts."""
    x, p = at.x(0, "input"), at.real(1, "p", 0.5)
    if at.argument(2, "train") is False or p == 0:
        return x
    return at.node("dropout", x, p=p, seed=0)


NORMS: Mapping[str, Row] = {
    "aten.layer_norm.default": _layer_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.group_norm.default": _group_norm,
    "aten.batch_norm.default": _batch_norm,
    "aten.instance_norm.default": _instance_norm,
    "aten.softmax.int": _softmax("softmax", 2),
    "aten.log_softmax.int": _softmax("log_softmax", 2),
    "aten._softmax.default": _softmax("softmax", None),
    "aten._log_softmax.default": _softmax("log_softmax", None),
    "aten.dropout.default": _dropout,
    "aten.native_dropout.default": _dropout,
}  # fmt: skip
"""Calls that normalise, and dropout."""
