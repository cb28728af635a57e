"""Every row of `TARGETS` against torch: small modules, traced, lowered, and run as they are exported."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from planner.importers.aten.lower import TARGETS, lower  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402
from planner.ops import OPS  # noqa: E402

from .running import Case, assert_same, together, traced  # noqa: E402

ROWS = Path(__file__).parents[3] / "planner/importers/aten/lower"


def case(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    """Return a function of x, which is [B, S, 8], and of parameters of these shapes."""
    return function, shapes


VIEWS: dict[str, Case] = {
    "view": case(lambda x: x.view(x.shape[0], -1)),
    "reshape-heads": case(lambda x: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)),
    "flatten": case(lambda x: x.flatten(0, 1)),
    "unflatten": case(lambda x: x.unflatten(-1, (2, 4))),
    "permute": case(lambda x: x.permute(2, 0, 1)),
    "transposed": case(lambda x, w: x @ w.t() + x.mT.mT @ w.T, (8, 8)),
    "movedim": case(lambda x: (x.movedim(0, 2), x.movedim((0, 1), (2, 0)))),
    "squeeze": case(lambda x: (x.unsqueeze(1).squeeze(1), x[:, :1].squeeze(), x.unsqueeze(-1).squeeze())),
    "expand": case(lambda x, w: (w.expand(x.shape[0], -1, -1), w[:1].expand_as(x)), (1, 8)),
    "expand-number": case(lambda x, w: w.expand(x.shape[0], 3), ()),
    "repeat": case(lambda x, w: (w.repeat(x.shape[0], 1), x.repeat(2, 1, 3), w.repeat(3, 2, 1)), (3, 8)),
    "repeat-of-symbols": case(lambda x, w: w.repeat(x.shape[0], x.shape[1], 1), (1, 1, 8)),
    "repeat_interleave": case(lambda x: x.repeat_interleave(3, dim=1)),
    "casts": case(lambda x: (x.double(), x.long() * x, x.long(), x.type_as(x.int()), (x > 0).int().bool().double())),
    "clone": case(lambda x: x.clone().contiguous()),
}
PARTS: dict[str, Case] = {
    "select": case(lambda x: (x[:, 0], x[..., -1], x[1])),
    "slice": case(lambda x: (x[..., 2:6], x[..., ::3], x[..., -3:], x[..., 1:-1:2])),
    "slice-open": case(lambda x: (x[:, 1:], x[:, :-1], x[1:, -2:], x[:, :3])),
    "slice-to-size": case(lambda x, w: w[: x.shape[1]] + x, (20, 8)),
    "slice-from-size": case(lambda x: torch.cat([x, x, x], 1)[:, x.shape[1] :]),
    "slice-between-sizes": case(lambda x: torch.cat([x, x, x], 1)[:, x.shape[1] : 2 * x.shape[1]]),
    "narrow": case(lambda x: x.narrow(2, 3, 4)),
    "split": case(lambda x: (x.split(3, -1)[1], x.split([2, 6], -1)[0], x.chunk(4, dim=2)[3])),
    "split-open": case(lambda x: torch.cat([x, x], 1).chunk(2, 1)[1]),
    "unbind": case(lambda x: (x.unflatten(-1, (2, 4)).unbind(-2)[1],)),
    "cat": case(lambda x, w: (torch.cat([x, x], 1), torch.cat([w.expand(x.shape[0], 1, 8), x], 1)), (8,)),
    "cat-empty": case(lambda x: torch.cat([x[..., 8:], x, x[..., :0]], -1)),
    "cat-types": case(lambda x: torch.cat([x, (x * 3).long()], -1)),
    "stack": case(lambda x: (torch.stack([x, x * 2], 1), torch.stack([x, x], -1).flatten(-2))),
    "stack-numbers": case(lambda x: torch.stack([x.mean(), x.sum()])),
    "pad": case(lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 3, 0), value=1.5), F.pad(x, (-1, 0, 1, -1)))),
    "pad-reflect": case(
        lambda x: (
            F.pad(x, (2, 1), mode="reflect"),
            F.pad(x, (1, 2), mode="replicate"),
            F.pad(x.mT, (2, 1), mode="reflect"),
            F.pad(x.mT, (1, 3), mode="circular"),
        )
    ),
    "pad-circular": case(lambda x: F.pad(x, (2, 3), mode="circular")),
    "roll": case(lambda x: (x.roll(3, -1), x.roll((1, -2), (1, 2)))),
    "flip": case(lambda x: x.flip(1, 2)),
    "triangles": case(lambda x, w: x @ (w.tril() + w.triu(1) * 2), (8, 8)),
}


def _written(x: Any) -> Any:
    y = x * 2
    y[:, 0] = 1.0
    y[..., 2:5] *= x[..., :3]
    y.view(y.shape[0], -1)[:, -1] = 0.0
    z = y.transpose(1, 2)
    z.add_(1)
    y[1:] = y[:-1] * 3
    return y, z


def _masked(x: Any) -> Any:
    y = x.clone()
    y.masked_fill_(y > 0.5, 0.25)
    y.clamp_(-1.0, 1.0).mul_(x)
    y /= 3
    flag = x > 0
    flag |= x < -1
    flag &= y > -0.5
    y.copy_(torch.where(flag, y, x[:, :1]))
    return y


def _without_gradient(x: Any) -> Any:
    with torch.no_grad():
        y, z = x.exp() * 2, x.sin()
    return x * y + z, y


WRITES: dict[str, Case] = {"written": case(_written), "masked": case(_masked), "no_grad": case(_without_gradient)}
ELEMENTS: dict[str, Case] = {
    "sums": case(lambda x: (x + 1, 2 - x, x - 3, torch.add(x, x * 2, alpha=3), torch.sub(x, x * x, alpha=2))),
    "rsub": case(lambda x, w: (torch.rsub(x, 1.5, alpha=2), torch.rsub(x, w)), (8,)),
    "products": case(lambda x, w: (x * w, 3 * x, x / 4, w / x.exp(), 2 / x.exp(), x.mean() * x), (8,)),
    "integers": case(lambda x: ((x * 3).long() * 0.5, (x * 9).long() // 2, (x * 9).long() % 4, (x * 5).long() * x)),
    "floor_divide": case(lambda x: (x.detach() // 0.3, torch.div(x.detach(), 0.7, rounding_mode="floor"), x % 0.7)),
    "powers": case(lambda x: (x**2, x.pow(3), 2**x, x.square(), x.abs().sqrt(), x.exp2())),
    "functions": case(lambda x: (x.exp(), x.abs().log(), x.sin(), x.cos(), x.erf(), x.abs().rsqrt(), x.reciprocal())),
    "functions-2": case(lambda x: (x.expm1(), x.abs().log1p(), (x.abs() + 1).log2(), x.floor(), x.ceil(), x.sign())),
    "round": case(lambda x: ((x * 3).round(), x.neg())),
    "activations": case(lambda x: (F.relu(x), F.silu(x), F.sigmoid(x), F.tanh(x), F.hardswish(x), F.softplus(x))),
    "activations-2": case(lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.elu(x), F.leaky_relu(x, 0.2))),
    "activations-3": case(lambda x: (F.hardtanh(x), F.relu6(x * 4), F.mish(x), F.logsigmoid(x))),
    "activations-4": case(lambda x: (F.glu(x), F.softsign(x), F.softplus(x, beta=2.0))),
    "prelu": case(lambda x, w, v: (F.prelu(x, w), F.prelu(x.transpose(1, 2), v)), (1,), (8,)),
    "extremes": case(lambda x, w: (torch.maximum(x, w), torch.min(x, w), x.clamp(-0.5, 0.25), x.clamp(min=0.1)), (8,)),
    "clamps": case(lambda x, w: (x.clamp_max(0.3), x.clamp(min=w), (x * 9).long().clamp(min=1)), (8,)),
    "comparisons": case(lambda x, w: (x > 0, x <= w, x == x, (x * 3).long() != 1, x > 0.5, (x * 4).long() >= 1), (8,)),
    "logic": case(lambda x: ((x > 0) & (x < 1), (x > 1) | (x < 0), ~(x > 0), (x > 0) ^ (x < 1), (x > 0) * (x < 1))),
    "logical": case(lambda x: (torch.logical_and(x > 0, x < 1), torch.logical_not(x), torch.logical_or(x, x > 0))),
    "where": case(
        lambda x, w: (torch.where(x > 0, x, w), torch.where(x > 0, x, 0.0), torch.where(x > 0, 1.0, x)), (8,)
    ),
    "where-numbers": case(lambda x: (torch.where(x > 0, 1.0, 2.0), torch.where(x[:, :1] > 0, x, -1.0))),
    "masked_fill": case(lambda x, w: (x.masked_fill(x > 0, 2.0), x.masked_fill(x[..., :1] > 0, w)), ()),
    "detach": case(lambda x: x.detach() * x + (x.exp().detach() - 1)),
    "lerp": case(lambda x, w: (torch.lerp(x, w, 0.25), torch.lerp(x, w, x)), (8,)),
    "fused-products": case(lambda x, w: (torch.addcmul(x, w, w, value=0.5), torch.addcdiv(x, w, w.exp())), (8,)),
    "sizes": case(lambda x: (x * x.shape[1], x / (x.shape[0] * x.shape[1] - 1), x + x.shape[1])),
}
CREATION: dict[str, Case] = {
    "filled": case(
        lambda x: (torch.zeros(x.shape[0], 3) + 1, torch.ones_like(x) * x, torch.full((2, 3), 0.5) + x[0, 0, 0])
    ),
    "new": case(lambda x: (x.new_ones(x.shape[1]) + x[..., 0], x.new_zeros(1) + x, x.new_full((8,), 2.5) * x)),
    "ranges": case(lambda x: (torch.arange(x.shape[1]), torch.arange(2, 10, 3), torch.arange(1, x.shape[1] + 1))),
    "ranges-real": case(lambda x: (torch.arange(0, 2, 0.5, dtype=torch.float64), torch.linspace(0, 1, 5).double())),
    "eye": case(lambda x: x @ torch.eye(8, dtype=torch.float64)),
    "one_hot": case(lambda x: F.one_hot((x * 2).long().clamp(0, 3), 4)),
    "positions": case(lambda x, w: x + F.embedding(torch.arange(x.shape[1]), w), (20, 8)),
    "scalar": case(lambda x: torch.where(x > torch.tensor(0), x, torch.tensor(2.5, dtype=x.dtype, device=x.device))),
}
REDUCTIONS: dict[str, Case] = {
    "sums": case(lambda x: (x.sum(), x.sum(-1), x.sum((0, 2)), x.sum(1, keepdim=True), (x > 0).sum(-1))),
    "means": case(lambda x: (x.mean(), x.mean(-1), x.mean((0, 1), keepdim=True))),
    "extremes": case(lambda x: (x.amax(-1), x.amin((0, 1)), x.max(), x.min(), x.max(-1).values, x.min(1)[0])),
    "places": case(lambda x: (x.max(-1)[1], x.argmax(-1), x.argmin(1, keepdim=True), x.max(2, keepdim=True)[1])),
    "quantified": case(lambda x: ((x > -1).all(-1), (x > 1).any(1), (x > 9).any(), (x > -9).all(2, keepdim=True))),
    "prod": case(lambda x: (x.prod(-1), x.prod(1, keepdim=True), x[0, 0].prod())),
    "spread": case(
        lambda x: (x.var(-1), x.std(-1), x.var((0, 1), unbiased=False), x.var(1, correction=0, keepdim=True))
    ),
    "logsumexp": case(lambda x: (x.logsumexp(-1), x.logsumexp(1, keepdim=True))),
    "norms": case(
        lambda x: (x.norm(dim=-1), torch.linalg.vector_norm(x, 1, 1), F.normalize(x, dim=-1), x.norm(p=3, dim=2))
    ),
    "running": case(lambda x: (x.cumsum(1), x.cumprod(-1), x.logcumsumexp(-1), (x > 0).cumsum(-1))),
    "diff": case(lambda x: (x.diff(dim=-1), x.diff(dim=1), x.diff(dim=1, prepend=x[:, :1]), (x * 2).long().diff())),
    "topk": case(lambda x: (*x.topk(3, -1), *x.topk(2, 1, largest=False))),
    "sort": case(lambda x: (*x.sort(-1), *x.sort(1, descending=True), x.argsort(-1))),
    "count_nonzero": case(lambda x: ((x > 0).count_nonzero(), (x * 2).long().count_nonzero(-1))),
}
PRODUCTS: dict[str, Case] = {
    "linear": case(lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0, 0], w, b)), (5, 8), (5,)),
    "matmul": case(lambda x, w: (x @ w, x @ x.mT, w.T @ w, x @ w[:, 0], w[:, 0] @ w, w[:, 0] @ w[:, 0]), (8, 5)),
    "bmm": case(lambda x, w: (torch.bmm(x, x.mT), torch.mm(w, w.T), torch.mv(w, w[0])), (8, 8)),
    "addmm": case(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w, beta=0.5, alpha=2.0), (8, 5), (5,)),
    "baddbmm": case(lambda x, b: (torch.baddbmm(b, x.mT, x, alpha=0.5), torch.addbmm(b, x.mT, x)), (8, 8)),
    "einsum": case(lambda x, w: (torch.einsum("bsk,nk->bsn", x, w), torch.einsum("bik,bjk->bij", x, x)), (5, 8)),
    "einsum-forms": case(lambda x, w: (torch.einsum("...k,nk->...n", x, w), torch.einsum("bsk->kb", x)), (5, 8)),
    "einsum-three": case(lambda x, w: torch.einsum("bsk,nk,mn->bsm", x, w, w @ w.T), (5, 8)),
    "einsum-open": case(lambda x, w: torch.einsum("bsk,nk", x, w), (5, 8)),
    "outer": case(lambda x, w: torch.outer(w, x[0, 0]), (3,)),
    "cosine": case(lambda x: F.cosine_similarity(x, x * x, dim=-1)),
    "bilinear": case(lambda x, w, b: F.bilinear(x[:, 0], x[:, 1], w, b), (3, 8, 8), (3,)),
}
SPACE: dict[str, Case] = {
    "conv1d": case(lambda x, w, b: F.conv1d(x.mT, w, b, padding=1), (6, 8, 3), (6,)),
    "conv1d-causal": case(lambda x, w: F.conv1d(x.mT, w, padding=3, groups=8)[..., : x.shape[1]], (8, 1, 4)),
    "conv2d": case(lambda x, w, b: F.conv2d(image(x), w, b, stride=2, padding=1), (4, 2, 3, 3), (4,)),
    "conv2d-same": case(lambda x, w: F.conv2d(image(x), w, padding="same", dilation=2), (4, 2, 2, 3)),
    "conv2d-valid": case(lambda x, w: F.conv2d(image(x), w, padding="valid"), (4, 2, 2, 2)),
    "conv3d": case(lambda x, w: F.conv3d(image(x).unsqueeze(2), w, padding=(0, 1, 1)), (4, 2, 1, 3, 3)),
    "conv-unbatched": case(lambda x, w: F.conv1d(x[0].T, w), (6, 8, 1)),
    "transposed": case(
        lambda x, w, b: F.conv_transpose2d(image(x), w, b, stride=2, output_padding=1), (2, 3, 3, 3), (3,)
    ),
    "transposed-1d": case(lambda x, w: F.conv_transpose1d(image(x).flatten(2), w, stride=2), (2, 3, 2)),
    "max_pool": case(lambda x: (F.max_pool2d(image(x), 2), F.max_pool2d(image(x), 3, stride=1, padding=1))),
    "average_pool": case(lambda x: (F.avg_pool2d(image(x), 2), F.avg_pool1d(image(x).flatten(2), 4, 2))),
    "adaptive": case(lambda x: (F.adaptive_avg_pool2d(image(x), 1), F.adaptive_avg_pool2d(image(x), (2, 1)))),
    "adaptive-open": case(lambda x: F.adaptive_avg_pool1d(x.mT, 1)),
    "interpolate": case(
        lambda x: (F.interpolate(image(x), scale_factor=2), F.interpolate(image(x), (8, 6), mode="bilinear"))
    ),
    "pixels": case(lambda x: (F.pixel_unshuffle(image(x), 2), F.pixel_shuffle(image(x).repeat(1, 2, 1, 1), 2))),
}


def image(x: Any) -> Any:
    """Return images of [B, 2, 4, 6] of the first three rows of every sequence."""
    return x[:, :3].repeat(1, 2, 1).reshape(x.shape[0], 2, 4, 6)


NORMS: dict[str, Case] = {
    "layer_norm": case(
        lambda x, w, b: (F.layer_norm(x, (8,), w, b), F.layer_norm(x, (8,)), F.layer_norm(x, (8,), w)), (8,), (8,)
    ),
    "layer_norm-bias": case(lambda x, b: F.layer_norm(x, (8,), None, b, eps=1e-3), (8,)),
    "layer_norm-two": case(lambda x, w: F.layer_norm(x.unflatten(-1, (2, 4)), (2, 4), w), (2, 4)),
    "rms_norm": case(lambda x, w: (F.rms_norm(x, (8,), w, 1e-5), F.rms_norm(x, (8,), eps=1e-3)), (8,)),
    "group_norm": case(lambda x, w, b: F.group_norm(x.mT, 2, w, b), (8,), (8,)),
    "instance_norm": case(lambda x, w, b: F.instance_norm(x.mT, weight=w, bias=b), (8,), (8,)),
    "batch_norm": case(lambda x, w, b: F.batch_norm(x.mT, None, None, w, b, training=True), (8,), (8,)),
    "batch_norm-fixed": case(
        lambda x, w, b: F.batch_norm(x.mT, (w * w).detach(), (b * b).detach() + 1, w, b), (8,), (8,)
    ),
    "softmax": case(lambda x: (x.softmax(-1), x.softmax(1), x.log_softmax(-1), F.softmax(x, -1, dtype=torch.float64))),
    "no-dropout": case(lambda x: (F.dropout(x, 0.5, training=False), F.dropout(x, 0.0))),
}
LOSSES: dict[str, Case] = {
    "cross_entropy": case(lambda x: F.cross_entropy(x.flatten(0, 1), labels(x).flatten(), ignore_index=2)),
    "cross_entropy-smooth": case(lambda x: F.cross_entropy(x.mT, labels(x), label_smoothing=0.1)),
    "cross_entropy-sums": case(lambda x: (F.cross_entropy(x.mT, labels(x), reduction="sum", ignore_index=1),
                                          F.cross_entropy(x.mT, labels(x), reduction="none", ignore_index=1))),
    "nll": case(lambda x: (F.nll_loss(x.mT.log_softmax(1), labels(x), ignore_index=3),
                           F.nll_loss(x.flatten(0, 1), labels(x).flatten(), reduction="sum"))),
    "squares": case(lambda x: (F.mse_loss(x, x * x), F.mse_loss(x, x.exp(), reduction="sum"),
                                  F.mse_loss(x, x.exp(), reduction="none"), F.l1_loss(x, x * 2))),
    "rounded": case(lambda x: (F.huber_loss(x, x * 3, delta=0.5), F.smooth_l1_loss(x, x * 3, beta=0.5),
                               F.huber_loss(x, x * 3, reduction="none"), F.smooth_l1_loss(x, x * 3, reduction="none"))),
    "binary": case(lambda x: (F.binary_cross_entropy_with_logits(x, x.sigmoid()),
                              F.binary_cross_entropy(x.sigmoid(), x.cos() ** 2),
                              F.binary_cross_entropy_with_logits(x, x.sigmoid(), reduction="none"))),
    "kl_div": case(lambda x: (F.kl_div(x.log_softmax(-1), x.softmax(1), reduction="sum"),
                              F.kl_div(x.log_softmax(-1), x.log_softmax(1), log_target=True, reduction="batchmean"))),
}  # fmt: skip


def labels(x: Any) -> Any:
    """Return labels of 8 classes that depend on x, and get no gradient."""
    return (x[..., 0].detach() * 2).long().abs().clamp(max=7)


def index_of(x: Any, *more: int) -> Any:
    return (x[..., 0].detach() * 3).long().abs().clamp(max=4)


def _put(x: Any, w: Any) -> Any:
    y, z = w * 2, w * 3
    index = torch.arange(3) * 4 % 5
    y[index] = x[0, :3]
    z.index_put_((index,), x[0, :3], accumulate=True)
    return y, z, torch.zeros(5, 8, dtype=torch.float64).index_copy(0, index, x[0, :3])


def _scattered(x: Any) -> Any:
    index = x.detach()[..., :3].argsort(-1)
    zeros = torch.zeros_like(x)
    return zeros.scatter(-1, index, 1.0), x.scatter(-1, index, x[..., 3:6]), x.scatter_add(-1, index, x[..., 2:5])


INDICES: dict[str, Case] = {
    "embedding": case(lambda x, w: (F.embedding(index_of(x), w), F.embedding(index_of(x), w, padding_idx=0)), (5, 8)),
    "embedding_bag": case(
        lambda x, w: (F.embedding_bag(index_of(x), w, mode="sum"), F.embedding_bag(index_of(x), w)), (5, 3)
    ),
    "gather": case(lambda x: (x.gather(-1, x.detach().argsort(-1)), x.gather(2, index_of(x).unsqueeze(-1)))),
    "index-lists": case(lambda x: (x[..., [-2]], x[:, [0]], x[..., [-1, 0, 3]], x[..., [[1, -8], [7, 2]]])),
    "take_along_dim": case(lambda x: torch.take_along_dim(x, index_of(x).unsqueeze(-1), -1)),
    "index_select": case(lambda x: x.index_select(-1, torch.arange(3) * 3 % 5)),
    "index": case(lambda x, w: (w[index_of(x)], w[:, index_of(x)[0]], x[:, :, torch.arange(1, 7, 4)]), (5, 8)),
    "index-two": case(
        lambda x, w: (w[index_of(x), index_of(x) + 1], x[torch.arange(x.shape[0]), index_of(x)[:, 0].clamp(max=2)]),
        (5, 8),
    ),
    "index_put": case(_put, (5, 8)),
    "scatter": case(_scattered),
    "index_add": case(lambda x, w: w.index_add(0, torch.arange(3) // 2 + 1, x[0, :3], alpha=2), (5, 8)),
}


def test_weights_are_dropped_by_the_operator() -> None:
    dropped = case(lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), seen(x), dropout_p=0.25))
    nodes = lower(strip(traced(together(dropped)))).block.nodes
    (one,) = (node for node in nodes if node.op == "masked_attention")
    assert one.attribute("dropout") == 0.25


ATTENTION: dict[str, Case] = {
    "plain": case(lambda x: F.scaled_dot_product_attention(heads(x), heads(x * 2), heads(x + 1))),
    "causal": case(lambda x: F.scaled_dot_product_attention(heads(x), heads(x * 2), heads(x + 1), is_causal=True)),
    "scaled": case(lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), scale=0.3)),
    "masked": case(lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=seen(x))),
    "biased": case(
        lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=(x @ x.mT).unsqueeze(1))
    ),
    "grouped": case(
        lambda x: F.scaled_dot_product_attention(heads(x), heads(x)[:, :1], heads(x)[:, :1], enable_gqa=True)
    ),
    "three-dims": case(lambda x: F.scaled_dot_product_attention(x, x * 2, x)),
}


def heads(x: Any) -> Any:
    return x.unflatten(-1, (2, 4)).transpose(1, 2)


def seen(x: Any) -> Any:
    at = torch.arange(x.shape[1])
    return (at[:, None] >= at[None, :]) | (x[:, :1, :1] > 99).unsqueeze(1)


def _turned(x: Any) -> Any:
    """Turn pairs of features by the angles of their places."""
    angles = torch.outer(
        torch.arange(x.shape[1], dtype=torch.float64), torch.linspace(1.0, 0.1, 4, dtype=torch.float64)
    )
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    moved = torch.view_as_real(pairs * turns[None]).flatten(2)
    back = (pairs.conj() * pairs).real + (pairs[:, :1] * x[..., :4]).imag
    return moved, back, torch.view_as_real(torch.cat([pairs, -pairs], 1).transpose(0, 1).unsqueeze(1) + turns[:1, None])


COMPLEX: dict[str, Case] = {"turned": case(_turned)}
FAMILIES = {
    "views": VIEWS, "parts": PARTS, "writes": WRITES, "elements": ELEMENTS, "creation": CREATION,
    "reductions": REDUCTIONS, "products": PRODUCTS, "space": SPACE, "norms": NORMS, "losses": LOSSES,
    "indices": INDICES, "attention": ATTENTION, "complex": COMPLEX,
}  # fmt: skip


ALONE = {"take_along_dim", "embedding_bag"}
"""Cases for which torch fixes batch and sequence."""


def check(*cases: Case) -> None:
    """Trace, lower and run functions as one module, and compare with torch."""
    module = together(*cases)
    flat = lower(strip(traced(module)))
    unknown = {node.attribute("target"): node.attribute("reason") for node in flat.block.nodes if node.op == "unknown"}
    assert unknown == {}
    assert_same(module, flat.block)


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradients_are_torchs(family: str) -> None:
    check(*(one for name, one in FAMILIES[family].items() if name not in ALONE))


@pytest.mark.parametrize("name", sorted(ALONE))
def test_where_torch_fixes_sizes(name: str) -> None:
    check(INDICES[name])


def test_rows_stand_for_calls_that_torch_has() -> None:
    missing = []
    for target in (target for target in TARGETS if target.startswith("aten.")):
        _, name, overload = target.split(".")
        if not hasattr(getattr(torch.ops.aten, name, None), overload):
            missing.append(target)
    assert missing == []


def test_rows_add_operators_that_there_are() -> None:
    named = set()
    for file in ROWS.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in {"at.node", "at.nodes", "plain", "_added"}:
                named |= {str(a.value) for a in call.args[:1] if isinstance(a, ast.Constant)}
    assert len(named) > 60
    assert named <= set(OPS)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), [(f, n) for f, cases in FAMILIES.items() for n in cases])
def test_each_alone(family: str, name: str) -> None:
    check(FAMILIES[family][name])
