"""Every pattern: what it makes of code computes what the code does, and what only looks like it stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from planner.core.graph import Block  # noqa: E402
from planner.importers.aten.constants import fold_constants  # noqa: E402
from planner.importers.aten.fuse import as_pairs, fuse  # noqa: E402
from planner.importers.aten.lower import lower  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402

from .running import Case, assert_same, together, traced  # noqa: E402

WIDTH, HEADS, KEY = 8, 4, 2


def case(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    """Return a function of x, which is [B, S, 8], and of parameters of these shapes."""
    return function, shapes


def _rms(x: Any, power: Callable[[Any], Any], eps: float = 1e-6, dim: int = -1) -> Any:
    return x * power(x.pow(2).mean(dim, keepdim=True) + eps)


NORMS = {
    "weight": case(lambda x, w: w * _rms(x, torch.rsqrt), (8,)),
    "behind": case(lambda x, w: _rms(x, torch.rsqrt) * w, (8,)),
    "less-one": case(lambda x, w: _rms(x, torch.rsqrt) * (1.0 + w), (8,)),
    "plain": case(lambda x: _rms(x, torch.rsqrt) * 3.0),
    "power": case(lambda x, w: _rms(x, lambda v: torch.pow(v, -0.5)) * w, (8,)),
    "quotient": case(lambda x, w: w * (x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)), (8,)),
    "gated": case(lambda x, w, g: w * _rms(x * F.silu(x @ g), torch.rsqrt), (8,), (8, 8)),
}
NOT_NORMS = {
    "eps-behind-the-root": case(lambda x, w: w * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6), (8,)),
    "other-axis": case(lambda x: _rms(x, torch.rsqrt, dim=1)),
    "sum": case(lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)),
    "other-value": case(lambda x: x * torch.rsqrt((2 * x).pow(2).mean(-1, keepdim=True) + 1e-6)),
    "cube": case(lambda x: x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + 1e-6)),
    "read-outside": case(lambda x: (lambda r: (x * r, r))(torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))),
}


def _halves(x: Any) -> Any:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def _neighbours(x: Any) -> Any:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def _angles(x: Any, width: int, repeat: Callable[[Any], Any]) -> tuple[Any, Any]:
    inverse = 1.0 / (100.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width))
    angle = repeat(torch.arange(x.shape[1], dtype=torch.float64)[:, None] * inverse[None, :])
    return angle.cos(), angle.sin()


def _twice(angle: Any) -> Any:
    return torch.cat((angle, angle), dim=-1)


def _split(x: Any, heads: int = HEADS) -> Any:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _rotated(x: Any) -> Any:
    (cos, sin), x = _angles(x, 4, _twice), _split(x, 2)
    return x * cos + _halves(x) * sin


def _rotated_neighbours(x: Any) -> Any:
    (cos, sin), x = _angles(x, 4, lambda a: a.repeat_interleave(2, -1)), _split(x, 2)
    return x * cos[None, None] + _neighbours(x) * sin[None, None]


def _rotated_part(x: Any) -> Any:
    (cos, sin), x = _angles(x, 2, _twice), _split(x, 2)
    turned, rest = x[..., :2], x[..., 2:]
    return torch.cat((turned * cos + _halves(turned) * sin, rest), dim=-1)


def _rotated_before_heads(x: Any) -> Any:
    cos, sin = (t[None, :, None, :] for t in _angles(x, 4, _twice))
    x = x.view(x.shape[0], x.shape[1], 2, 4)
    return (x * cos + _halves(x) * sin).transpose(1, 2)


def _two(x: Any, cat: Callable[[Any, Any], Any], part: Callable[[Any], tuple[Any, Any]]) -> Any:
    (cos, sin), (a, b) = _angles(x, 4, lambda angle: angle), part(_split(x, 2))
    return cat(a * cos - b * sin, b * cos + a * sin)


def _rotated_as_complex(x: Any) -> Any:
    inverse = 1.0 / (100.0 ** (torch.arange(0, 4, 2, dtype=torch.float64) / 4))
    angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), inverse)
    turns = torch.polar(torch.ones_like(angle), angle)
    x = torch.view_as_complex(_split(x, 2).reshape(x.shape[0], 2, x.shape[1], -1, 2))
    return torch.view_as_real(x * turns).flatten(3)


ROTATIONS = {
    "complex": case(_rotated_as_complex),
    "halves": case(_rotated),
    "neighbours": case(_rotated_neighbours),
    "part": case(_rotated_part),
    "before-heads": case(_rotated_before_heads),
    "two": case(lambda x: _two(x, lambda a, b: torch.cat((a, b), -1), lambda y: y.chunk(2, -1))),
    "two-regrouped": case(lambda x: _two(x, lambda a, b: torch.cat((a, b), -1), lambda y: (y[..., ::2], y[..., 1::2]))),
    "two-neighbours": case(
        lambda x: _two(x, lambda a, b: torch.stack((a, b), -1).flatten(-2), lambda y: (y[..., ::2], y[..., 1::2]))
    ),
}


def _turned_back(x: Any) -> Any:
    (cos, sin), x = _angles(x, 4, _twice), _split(x, 2)
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((b, -a), dim=-1) * sin


def _other_part(x: Any) -> Any:
    (cos, sin), x = _angles(x, 4, _twice), _split(x, 2)
    return x * cos + torch.cat((-x[..., 1:3], x[..., :2]), dim=-1) * sin


def _by_batch(x: Any) -> Any:
    y = _split(x, 2)
    return y * x[:, None, :, :4].cos() + _halves(y) * x[:, None, :, :4].sin()


NOT_ROTATIONS = {"back": case(_turned_back), "other-part": case(_other_part), "table-of-batch": case(_by_batch)}


def _qkv(x: Any, q: Any, k: Any, v: Any, heads: int = HEADS, groups: int = HEADS) -> tuple[Any, Any, Any]:
    return _split(x @ q, heads), _split(x @ k, groups), _split(x @ v, groups)


def _merged(y: Any) -> Any:
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def _repeated(x: Any, count: int) -> Any:
    b, g, s, e = x.shape
    return x[:, :, None].expand(b, g, count, s, e).reshape(b, g * count, s, e)


def _causal(x: Any, window: int = 0) -> Any:
    i = torch.arange(x.shape[1])
    seen = i[None, :] <= i[:, None]
    return seen & (i[None, :] > i[:, None] - window) if window else seen


def _additive(x: Any) -> Any:
    return torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype).masked_fill(~_causal(x), torch.finfo(x.dtype).min)


def _sdpa(x: Any, *w: Any, **given: Any) -> Any:
    return _merged(F.scaled_dot_product_attention(*_qkv(x, *w), **given))


def _written(x: Any, *w: Any, scores: Callable[[Any], Any] = lambda s: s * KEY**-0.5) -> Any:
    q, k, v = _qkv(x, *w)
    return _merged(torch.softmax(scores(q @ k.transpose(-1, -2)), dim=-1) @ v)


def _grouped(x: Any, q: Any, k: Any, v: Any, repeat: Callable[[Any], Any], **given: Any) -> Any:
    a, b, c = _qkv(x, q, k, v, HEADS, 2)
    return _merged(F.scaled_dot_product_attention(a, repeat(b), repeat(c), is_causal=True, **given))


def _capped(x: Any, *w: Any) -> Any:
    mask = _additive(x)
    return _written(x, *w, scores=lambda s: torch.tanh(s / 3.0) * 3.0 + mask)


def _sunk(x: Any, q: Any, k: Any, v: Any, sinks: Any) -> Any:
    a, b, c = _qkv(x, q, k, v)
    scores = a @ b.transpose(2, 3) * 0.5 + _additive(x)
    more = sinks.reshape(1, -1, 1, 1).expand(a.shape[0], -1, a.shape[2], -1)
    joined = torch.cat([scores, more], dim=-1)
    joined = joined - joined.max(dim=-1, keepdim=True).values
    return _merged(torch.softmax(joined, dim=-1)[..., :-1] @ c)


SQUARES, NARROW = ((8, 8),) * 3, ((8, 8), (8, 4), (8, 4))
ATTENTIONS: dict[str, tuple[Case, str]] = {
    "causal": (case(lambda x, *w: _sdpa(x, *w, is_causal=True), *SQUARES), "attention"),
    "mask": (case(lambda x, *w: _sdpa(x, *w, attn_mask=_causal(x)), *SQUARES), "attention"),
    "window": (case(lambda x, *w: _sdpa(x, *w, attn_mask=_causal(x, 3)), *SQUARES), "window_attention"),
    "full": (case(lambda x, *w: _sdpa(x, *w, scale=0.3), *SQUARES), "full_attention"),
    "written": (case(_written, *SQUARES), "full_attention"),
    "written-unscaled": (case(lambda x, *w: _written(x, *w, scores=lambda s: s), *SQUARES), "full_attention"),
    "written-causal": (
        case(lambda x, *w: _written(x, *w, scores=lambda s: s / 2.0 + _additive(x)), *SQUARES), "attention",
    ),
    "written-filled": (
        case(lambda x, *w: _written(x, *w, scores=lambda s: s.masked_fill(~_causal(x), -torch.inf)), *SQUARES),
        "attention",
    ),
    "written-bias": (
        case(lambda x, q, k, v, b: _written(x, q, k, v, scores=lambda s: s + b), *SQUARES, (1, 4, 1, 1)),
        "full_attention",
    ),
    "bias-of-batch": (case(lambda x, *w: _sdpa(x, *w, attn_mask=x[:, None, :, :1]), *SQUARES), "full_attention"),
    "grouped": (case(lambda x, *w: _grouped(x, *w, lambda y: _repeated(y, 2)), *NARROW), "attention"),
    "grouped-interleave": (
        case(lambda x, *w: _grouped(x, *w, lambda y: y.repeat_interleave(2, 1)), *NARROW), "attention",
    ),
    "grouped-flag": (case(lambda x, *w: _grouped(x, *w, lambda y: y, enable_gqa=True), *NARROW), "attention"),
    "capped": (case(_capped, *SQUARES), "attention"),
    "sinks": (case(_sunk, *SQUARES, (4,)), "sink_attention"),
}  # fmt: skip


def _other_order(x: Any, *w: Any) -> Any:
    """Repeat the groups one after the other, so that a group's heads don't lie side by side."""
    return _grouped(x, *w, lambda y: y.repeat(1, 2, 1, 1))


NOT_ATTENTIONS = {
    "softmax-of-queries": case(
        lambda x, *w: (lambda q, k, v: torch.softmax(q @ k.transpose(2, 3), dim=-2) @ v)(*_qkv(x, *w)), *SQUARES
    ),
    "weights-read-outside": case(
        lambda x, *w: (lambda q, k, v: (lambda p: (p @ v, p))(torch.softmax(q @ k.transpose(2, 3), -1)))(*_qkv(x, *w)),
        *SQUARES,
    ),
}


ACTIVATIONS = {
    "gelu-tanh": (case(lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))), "gelu"),
    "gelu-tanh-short": (
        case(lambda x: x * 0.5 * (1 + torch.tanh(0.79788456080286541 * x * (1 + 0.044715 * x * x)))), "gelu",
    ),
    "gelu-erf": (case(lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5))), "gelu"),
    "silu": (case(lambda x: x * torch.sigmoid(x)), "silu"),
    "swiglu": (case(lambda x, a, b: F.silu(x @ a) * (x @ b), (8, 4), (8, 4)), "swiglu"),
    "geglu": (case(lambda x, a, b: (x @ b) * F.gelu(x @ a, approximate="tanh"), (8, 4), (8, 4)), "geglu"),
    "geglu-written": (
        case(lambda x, a, b: (lambda g: g * 0.5 * (1.0 + torch.erf(g / 2**0.5)))(x @ a) * (x @ b), (8, 4), (8, 4)),
        "geglu",
    ),
}  # fmt: skip
NOT_ACTIVATIONS = {
    "other-factor": case(lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3)))),
    "quick": case(lambda x: x * torch.sigmoid(1.702 * x)),
    "other-value": case(lambda x: (x + 1) * torch.sigmoid(x)),
    "gate-read-outside": case(lambda x, a: (lambda g: (g * x, g))(F.silu(x @ a)), (8, 8)),
}


def _assembled(x: Any) -> Any:
    made = x.new_empty(x.shape[0], x.shape[1], 12)
    made[..., :8] = x
    made[..., 8:] = x[..., :1]
    return made


def _by_rows(x: Any, q: Any, k: Any, v: Any) -> Any:
    """Attend with batch and heads as one dim."""
    a, b, c = (y.reshape(-1, y.shape[2], y.shape[3]) for y in _qkv(x, q, k, v))
    made = torch.bmm(torch.softmax(torch.bmm(a, b.transpose(1, 2)), -1), c)
    return _merged(made.view(x.shape[0], HEADS, x.shape[1], KEY))


def _flat(x: Any, w: Any, b: Any) -> Any:
    """Work on rows, as convolutions of size 1 and routers do."""
    rows = torch.addmm(b, x.view(-1, 8), w)
    best = rows.softmax(-1).topk(2, dim=-1)
    chosen = torch.zeros_like(rows).scatter(1, best.indices, 1.0)
    return (rows * chosen).view(x.shape[0], x.shape[1], 8)


OTHERS: dict[str, tuple[Case, str]] = {
    "assembled": (case(_assembled), "concat"),
    "rows-of-heads": (case(_by_rows, *SQUARES), "full_attention"),
    "rows": (case(_flat, (8, 8), (8,)), "topk"),
    "parts": (case(lambda x, w: (lambda q, k: q * k.tanh())(*(x @ w.T).chunk(2, dim=-1)), (8, 8)), "einsum"),
    "parts-biased": (
        case(lambda x, w, b: (lambda q, k: q / (k * k + 1))(*F.linear(x, w, b).split(4, -1)), (8, 8), (8,)), "einsum",
    ),
    "positions": (
        case(lambda x, t: x + F.embedding(torch.arange(x.shape[1])[None], t), (20, 8)), "index_select",
    ),
    "loss": (case(lambda x, w: F.cross_entropy((x @ w).flatten(0, 1), (x[..., 0] > 0).long().flatten()), (8, 4)),
             "cross_entropy"),
}  # fmt: skip


def fused(*cases: Case) -> tuple[Any, Block]:
    """Return a module of all cases, and its block."""
    module = together(*cases)
    return module, lower(fuse(fold_constants(as_pairs(strip(traced(module)))))).block


def ops(block: Block) -> Counter[str]:
    """Return how many nodes of each operator there are."""
    return Counter(node.op for node in block.nodes)


CLOSE = 1e-7
"""Rotary tables are in fp32 here, and in float64 in the code."""


@pytest.mark.parametrize(("cases", "op"), [(NORMS, "rms_norm"), (ROTATIONS, "rotary")], ids=["norms", "rotations"])
def test_written_out(cases: dict[str, Case], op: str) -> None:
    module, block = fused(*cases.values())
    assert ops(block)[op] == len(cases)
    assert_same(module, block, close=CLOSE if op == "rotary" else 1e-12)


@pytest.mark.parametrize("cases", [ATTENTIONS, ACTIVATIONS, OTHERS], ids=["attentions", "activations", "others"])
def test_of_several_kinds(cases: dict[str, tuple[Case, str]]) -> None:
    module, block = fused(*(one for one, _ in cases.values()))
    wanted = Counter(op for _, op in cases.values())
    found = ops(block)
    assert {op: found[op] for op in wanted} == wanted
    assert found["unknown"] == 0
    assert_same(module, block)


@pytest.mark.parametrize(
    ("cases", "made"),
    [
        (NOT_NORMS, {"rms_norm"}),
        (NOT_ROTATIONS, {"rotary"}),
        (NOT_ATTENTIONS, {"attention", "window_attention", "full_attention", "attend"}),
        (NOT_ACTIVATIONS, {"gelu", "swiglu", "geglu"}),
    ],
    ids=["norms", "rotations", "attentions", "activations"],
)
def test_near_misses(cases: dict[str, Case], made: set[str]) -> None:
    module, block = fused(*cases.values())
    assert made & set(ops(block)) == set()
    assert_same(module, block, close=CLOSE if "rotary" in made else 1e-12)


def test_heads_in_another_order_are_not_grouped() -> None:
    module, block = fused(case(_other_order, *NARROW))
    (node,) = (n for n in block.nodes if n.op == "attention")
    assert dict(node.rule.sizes)["g"] == HEADS
    assert_same(module, block)
