"""Losses: means over all elements, sums, or one for each."""

from __future__ import annotations

from collections.abc import Mapping

from .elements import bounded, related, scaled, shifted
from .site import Row, Site, UnloweredError

_NONE, _MEAN, _SUM = 0, 1, 2
"""Torch's numbers for how a loss is reduced."""


def _reduction(at: Site, position: int) -> int:
    return at.integer(position, "reduction", _MEAN)


def _logits(at: Site, x: str) -> str:
    """Return x with its classes, which are dim 1, at the end."""
    return at.with_last(x, 1) if at.rank(x) > 1 else x


def _cross_entropy(at: Site) -> str:
    x, labels = _logits(at, at.x(0, "self")), at.x(1, "target")
    if at.meta(labels).dtype not in ("int64", "int32"):
        raise UnloweredError("its targets are probabilities")
    if at.given(2, "weight"):
        raise UnloweredError("it weighs classes")
    ignore, smoothing = at.integer(4, "ignore_index", -100), at.real(5, "label_smoothing", 0.0)
    reduction = _reduction(at, 3)
    if reduction == _MEAN:
        return at.node("cross_entropy", x, labels, ignore_index=ignore,
                       **({"label_smoothing": smoothing} if smoothing else {}))  # fmt: skip
    if smoothing:
        raise UnloweredError("it smooths labels without taking the mean")
    losses = _picked(at, at.node("log_softmax", x, dim=-1), labels, ignore)
    return losses if reduction == _NONE else at.node("sum", losses)


def _picked(at: Site, x: str, labels: str, ignore: int) -> str:
    """Return −x of each label, zero where it is ignored."""
    classes = at.meta(x).shape[-1]
    assert isinstance(classes, int)
    rank = at.rank(labels)
    index = at.unsqueezed(bounded(at, labels, 0, classes - 1), rank)
    picked = at.node("neg", at.squeezed(at.node("gather", x, index, dim=rank), rank))
    return at.node("masked_fill", picked, related(at, labels, "eq", ignore), value=0.0)


def _negative_likelihood(at: Site) -> str:
    """Average over the labels that are not ignored."""
    if at.given(2, "weight"):
        raise UnloweredError("it weighs classes")
    x, labels, ignore = _logits(at, at.x(0, "self")), at.x(1, "target"), at.integer(4, "ignore_index", -100)
    losses, reduction = _picked(at, x, labels, ignore), _reduction(at, 3)
    if reduction == _NONE:
        return losses
    total = at.node("sum", losses)
    if reduction == _SUM:
        return total
    count = at.node("sum", at.cast(related(at, labels, "ne", ignore), at.meta(total).dtype))
    return at.node("div", total, count)


def _of_two(op: str, position: int, option: str = "", default: float = 1.0) -> Row:
    """Return the row of a loss of two tensors that `OPS` has; `position` is that of its reduction."""

    def row(at: Site) -> str:
        x, target = at.x(0, "self"), at.x(1, "target")
        reduction = _reduction(at, position)
        if reduction == _NONE:
            return _ELEMENTWISE[op](at, x, target, at.real(position + 1, option, default) if option else 1.0)
        shape = at.meta(at.node("sub", x, target)).shape if at.meta(x).shape != at.meta(target).shape else ()
        if shape:
            x, target = at.expanded(x, shape), at.expanded(target, shape)
        given = {option: at.real(position + 1, option, default)} if option else {}
        return at.node(op, x, target, **given, **({"reduction": "sum"} if reduction == _SUM else {}))

    return row


def _square(at: Site, x: str, target: str, _: float) -> str:
    return at.node("pow", at.node("sub", x, target), exponent=2)


def _absolute(at: Site, x: str, target: str, _: float) -> str:
    return at.node("abs", at.node("sub", x, target))


def _rounded(at: Site, x: str, target: str, delta: float) -> str:
    """Return a loss that is square near zero, and linear beyond delta."""
    far = at.node("abs", at.node("sub", x, target))
    near = bounded(at, far, 0.0, delta)
    # near · (far − near / 2) is far² / 2 up to delta, and delta · (far − delta / 2) beyond.
    return at.node("mul", near, at.node("sub", far, scaled(at, near, 0.5)))


def _smooth(at: Site, x: str, target: str, beta: float) -> str:
    return scaled(at, _rounded(at, x, target, beta), 1 / beta)


def _logistic(at: Site, x: str, target: str, _: float) -> str:
    """Return log(1 + eˣ) − x · target."""
    return at.node("sub", at.node("softplus", x), at.node("mul", x, target))


_ELEMENTWISE = {
    "mse_loss": _square, "l1_loss": _absolute, "huber_loss": _rounded, "smooth_l1_loss": _smooth,
    "bce_with_logits": _logistic,
}  # fmt: skip


def _with_logits(at: Site) -> str:
    if at.given(2, "weight") or at.given(3, "pos_weight"):
        raise UnloweredError("it weighs elements or classes")
    return _of_two("bce_with_logits", 4)(at)  # type: ignore[return-value]


def _binary(at: Site) -> str:
    """Return the cross-entropy of two probabilities; torch holds the logarithms above −100."""
    if at.given(2, "weight"):
        raise UnloweredError("it weighs elements")
    x, target = at.x(0, "self"), at.x(1, "target")
    yes = bounded(at, at.node("log", x), -100.0, None)
    no = bounded(at, at.node("log", shifted(at, at.node("neg", x), 1.0)), -100.0, None)
    other = shifted(at, at.node("neg", target), 1.0)
    losses = at.node("neg", at.node("add", at.node("mul", target, yes), at.node("mul", other, no)))
    return _taken(at, losses, _reduction(at, 3))


def _taken(at: Site, losses: str, reduction: int) -> str:
    return losses if reduction == _NONE else at.node("mean" if reduction == _MEAN else "sum", losses)


def _divergence(at: Site) -> str:
    x, target, in_log = at.x(0, "self"), at.x(1, "target"), at.flag(3, "log_target", False)
    reduction = _reduction(at, 2)
    if reduction == _NONE:
        if not in_log:
            raise UnloweredError("it gives the divergence of each element, from probabilities that may be zero")
        return at.node("mul", at.node("exp", target), at.node("sub", target, x))
    return at.node("kl_div", x, target, log_target=in_log, reduction="sum" if reduction == _SUM else "mean")


LOSSES: Mapping[str, Row] = {
    "aten.cross_entropy_loss.default": _cross_entropy,
    **dict.fromkeys(("aten.nll_loss.default", "aten.nll_loss_nd.default", "aten.nll_loss2d.default"),
                    _negative_likelihood),
    "aten.mse_loss.default": _of_two("mse_loss", 2),
    "aten.l1_loss.default": _of_two("l1_loss", 2),
    "aten.huber_loss.default": _of_two("huber_loss", 2, "delta"),
    "aten.smooth_l1_loss.default": _of_two("smooth_l1_loss", 2, "beta"),
    "aten.binary_cross_entropy_with_logits.default": _with_logits,
    "aten.binary_cross_entropy.default": _binary,
    "aten.kl_div.default": _divergence,
}  # fmt: skip
"""Calls that a model's loss ends in."""
