"""Operators that need to know where their shard lies, or that torch has no single call for."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


def embedding_of_shard(
    tokens: torch.Tensor, weight: torch.Tensor, *, first: int, padding: int | None = None
) -> torch.Tensor:
    """Look up tokens in rows `first …` of the table; tokens outside them give zero rows, `padding` no gradient."""
    local = tokens - first
    outside = (local < 0) | (local >= weight.shape[0])
    # A rank without rows picks one of padding, so that its gradient is there and empty.
    rows = weight if weight.shape[0] else F.pad(weight, (0, 0, 0, 1))
    held = padding is not None and 0 <= padding - first < weight.shape[0]
    picked = F.embedding(local.masked_fill(outside, 0), rows, padding - first if padding is not None and held else None)
    return picked.masked_fill(outside.unsqueeze(-1), 0)


def route(probabilities: torch.Tensor, *, count: int, capacity: int, normalized: bool) -> torch.Tensor:
    """Return the weights of tokens in slots, [batch, seq, experts, capacity].

    Each token goes to its `count` best experts, first choices before second ones, in order of position; an expert has
    `capacity` slots a sequence, and what comes later is dropped. Weights are the probabilities, or their shares.
    """
    weights, chosen = probabilities.topk(count, dim=-1)
    if normalized:
        weights = weights / weights.sum(-1, keepdim=True)
    return place(weights, chosen, experts=probabilities.shape[-1], capacity=capacity)


def place(weights: torch.Tensor, chosen: torch.Tensor, *, experts: int, capacity: int, first: int = 0) -> torch.Tensor:
    """Return the weights of tokens in slots, [batch, seq, experts, capacity], of the experts that each token chose.

    First choices come before second ones, in order of position; what comes later than `capacity` is dropped. `first`
    is the first expert of a shard.
    """
    here = (chosen >= first) & (chosen < first + experts)
    chosen = torch.where(here, chosen - first, experts)
    # In the order in which slots are given out: [batch, count · seq, experts].
    queue = F.one_hot(chosen, experts + 1).transpose(1, 2).flatten(1, 2)
    before = (queue.cumsum(1) - queue).unflatten(1, (chosen.shape[2], chosen.shape[1])).transpose(1, 2)
    slot = before.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    slots = experts * capacity
    target = torch.where(here & (slot < capacity), chosen * capacity + slot, slots)
    # The last place is for what is dropped.
    taken = weights.new_zeros(*weights.shape[:2], slots + 1).scatter_add(-1, target, weights)
    return taken[..., :-1].unflatten(-1, (experts, capacity))


def dispatch(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Copy tokens, [batch, seq, k], to the slots in which they have a weight: [experts, batch, slots, k]."""
    taken = (weights != 0).to(x.dtype).flatten(2)
    return torch.bmm(taken.transpose(1, 2), x).unflatten(1, weights.shape[2:]).transpose(0, 1)


def collect(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Add up what is in the slots of each token by its weights: [batch, seq, n]."""
    return torch.bmm(weights.flatten(2), x.transpose(0, 1).flatten(1, 2))


def recurrent(
    kind: str,
    x: torch.Tensor,
    weight_input: torch.Tensor,
    weight_state: torch.Tensor,
    bias_input: torch.Tensor | None = None,
    bias_state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the states of one recurrent layer, `lstm`, `gru` or `rnn`, after every step, from zero."""
    if not x.numel():
        used = x.sum() + weight_input.sum() + weight_state.sum()
        used = used if bias_input is None or bias_state is None else used + bias_input.sum() + bias_state.sum()
        return (used * 0).expand(*x.shape[:2], weight_state.shape[1])
    zero = x.new_zeros(1, x.shape[0], weight_state.shape[1])
    weights = [weight_input, weight_state]
    weights += [] if bias_input is None or bias_state is None else [bias_input, bias_state]
    run: Callable[..., tuple[torch.Tensor, ...]] = getattr(torch, "rnn_tanh" if kind == "rnn" else kind)
    states = (zero, zero) if kind == "lstm" else zero
    # One layer without dropout, in one direction, batch first.
    return run(x, states, weights, len(weights) == 4, 1, 0.0, False, False, True)[0]


def expert_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply the tokens of each expert, [experts, …, k], with its matrix, [experts, n, k]."""
    rows = x.flatten(1, -2)
    return torch.bmm(rows, weight.transpose(1, 2)).unflatten(1, x.shape[1:-1])


def mean_square(x: torch.Tensor, *, width: int, dim: int = -1) -> torch.Tensor:
    """Return this shard's share of the mean of x² over a dim of global size `width`."""
    return _at_least_float32(x).square().sum(dim) / width


def l2_scale(x: torch.Tensor, square: torch.Tensor, *, eps: float, dim: int = -1) -> torch.Tensor:
    """Divide by the root of the sum of squares, at least `eps`."""
    return (_at_least_float32(x) / square.sqrt().clamp_min(eps).unsqueeze(dim)).to(x.dtype)


def rms_scale(
    x: torch.Tensor, mean_square: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float
) -> torch.Tensor:
    """Divide by the root mean square and scale."""
    normal = (_at_least_float32(x) * torch.rsqrt(mean_square + eps).unsqueeze(-1)).to(x.dtype)
    return normal if weight is None else normal * weight


def moments(x: torch.Tensor, *, dims: tuple[int, ...], count: int) -> torch.Tensor:
    """Return this shard's share of the means of x and of x² over `dims` of `count` elements in all, as a last dim."""
    x = _at_least_float32(x)
    return torch.stack((x.sum(dims), x.square().sum(dims)), -1) / count


def batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, *, eps: float
) -> torch.Tensor:
    """Normalise each channel over batch and space, then scale and shift; a rank may have no channels."""
    if x.shape[1]:
        return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
    # Nothing is left to compute; each operand still gets its gradient, which is empty.
    for affine in (weight, bias):
        if affine is not None:
            x = x * affine.view(1, 0, *(1 for _ in x.shape[2:]))
    return x


def normalize(x: torch.Tensor, moments: torch.Tensor, *, dims: tuple[int, ...], eps: float) -> torch.Tensor:
    """Subtract the mean and divide by the deviation, which `moments` has for all dims but `dims`."""
    mean, square = moments.unbind(-1)
    scale = torch.rsqrt((square - mean.square()).clamp_min(0) + eps)
    for dim in dims:
        mean, scale = mean.unsqueeze(dim), scale.unsqueeze(dim)
    return ((_at_least_float32(x) - mean) * scale).to(x.dtype)


def rotary_table(
    length: int,
    head_dim: int,
    theta: float | tuple[float, ...],
    *,
    first: int,
    device: torch.device,
    scaling: tuple[float, float, float, int] | None = None,
    form: str = "halves",
    scale: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, [length, head_dim] in fp32, of positions `first …`, times `scale`.

    `theta` is the base of the frequencies, or the frequencies themselves. `scaling` is (factor, low frequency factor,
    high frequency factor, original length) of Llama 3.1's long-context rule (Llama 3 report, 2024): long waves are
    slowed by the factor, short ones stay, the middle is interpolated. In `form` "halves" all frequencies stand twice,
    one after the other, in "neighbours" each beside itself.
    """
    if isinstance(theta, tuple):
        frequencies = torch.tensor(theta, device=device, dtype=torch.float32)
    else:
        exponents = torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).float() / head_dim
        frequencies = 1.0 / (theta**exponents)
    if scaling is not None:
        factor, low, high, original = scaling
        turns = original * frequencies / (2 * math.pi)
        share = ((turns - low) / (high - low)).clamp(0, 1)
        frequencies = frequencies * (share + (1 - share) / factor)
    positions = torch.arange(first, first + length, device=device, dtype=torch.int64).float()
    angles = torch.outer(positions, frequencies)
    neighbours = form == "neighbours"
    angles = angles.repeat_interleave(2, dim=-1) if neighbours else torch.cat((angles, angles), dim=-1)
    return (angles.cos(), angles.sin()) if scale == 1 else (angles.cos() * scale, angles.sin() * scale)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, pairs: str = "halves") -> torch.Tensor:
    """Rotate pairs of the last dim by the angles of each position.

    Elements i and i + r/2 are a pair, or with `neighbours` 2i and 2i + 1; with `regrouped` these are read, and written
    as the former. A table that is narrower than the dim leaves the elements behind it as they are.
    """
    width = cos.shape[-1]
    x, rest = x[..., :width], x[..., width:]
    if pairs == "regrouped":
        x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    if pairs == "neighbours":
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    else:
        left, right = x.chunk(2, dim=-1)
        turned = torch.cat((-right, left), dim=-1)
    rotated = x * cos.to(x.dtype) + turned * sin.to(x.dtype)
    return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated


def causal_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    first: int | None = None,
    scale: float | None = None,
    **bounds: int,
) -> torch.Tensor:
    """Attend to keys up to each query's position, or to fewer of them by the `bounds` of `hide_future`.

    `first` is the global position of the first query of a shard.
    """
    grouped = q.shape[1] != k.shape[1]
    if first is None and not bounds:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    seen = ~_hidden(q.shape[2], k.shape[2], first or 0, 0, q.device, **bounds)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale, enable_gqa=grouped)


def full_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """Attend to all keys, with a bias on the scores, or to those that a mask shows."""
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=grouped)
    if bias is None or out.numel() or not bias.requires_grad:
        return out
    # torch forgets the bias of an empty result. Its gradient of zeros has to come back all the same: where that is
    # redistributed, the ranks that have some wait for this one.
    return out + bias.sum()


def attention_scores(q: torch.Tensor, k: torch.Tensor, *, scale: float) -> torch.Tensor:
    """Multiply queries with the keys of their group."""
    groups, queries = k.shape[1], q.shape[2]
    rows = q.unflatten(1, (groups, q.shape[1] // groups)).flatten(2, 3)
    scores = torch.matmul(rows, k.transpose(-1, -2)) * scale
    return scores.unflatten(2, (q.shape[1] // groups, queries)).flatten(1, 2)


def hide_future(scores: torch.Tensor, *, first: int = 0, first_key: int = 0, **bounds: int) -> torch.Tensor:
    """Put −∞ for keys that a query does not see; rows and columns begin at `first` and `first_key`.

    It sees those up to its own position: all, the last `window`, or those of its `chunk`; or, by `reach`, those at most
    so far before and after it.
    """
    queries, keys = scores.shape[2:]
    return scores.masked_fill(_hidden(queries, keys, first, first_key, scores.device, **bounds), float("-inf"))


def sink_max(maximum: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the larger of each row's maximum, [batch, heads, queries], and its head's sink, without gradient."""
    return torch.maximum(maximum, sinks.detach().unsqueeze(-1).to(maximum.dtype))


def add_sink(sum_exp: torch.Tensor, maximum: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the sum of exponentials of each row with that of its head's sink."""
    return sum_exp + (sinks.unsqueeze(-1).to(sum_exp.dtype) - maximum).exp()


def attend(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Sum the values of a group by each query's weights."""
    groups, queries = v.shape[1], weights.shape[2]
    rows = weights.unflatten(1, (groups, weights.shape[1] // groups)).flatten(2, 3)
    return torch.matmul(rows, v).unflatten(2, (weights.shape[1] // groups, queries)).flatten(1, 2)


def _hidden(
    queries: int,
    keys: int,
    first: int,
    first_key: int,
    device: torch.device,
    *,
    window: int | None = None,
    chunk: int | None = None,
    reach: int | None = None,
) -> torch.Tensor:
    query = torch.arange(first, first + queries, device=device).unsqueeze(-1)
    key = torch.arange(first_key, first_key + keys, device=device)
    if reach is not None:
        return (query - key).abs() > reach
    hidden = key > query
    if window is not None:
        hidden = hidden | (query - key >= window)
    return hidden if chunk is None else hidden | (key < query // chunk * chunk)


def window_mask(
    shape: tuple[int, ...], *, device: torch.device, first: int = 0, first_key: int = 0, **bounds: int
) -> torch.Tensor:
    """Return which keys queries see by the bounds of `hide_future`; rows and columns begin at `first`, `first_key`."""
    return ~_hidden(shape[-2], shape[-1], first, first_key, device, **bounds).expand(shape)


def cast(x: torch.Tensor, dtype: str, compute: torch.dtype) -> torch.Tensor:
    """Return x in an element type, or in `compute`, the model's; in float64, where plans are proven, numbers stay."""
    target: torch.dtype = compute if dtype == "compute" else getattr(torch, dtype)
    return x if x.dtype == torch.float64 and target.is_floating_point else x.to(target)


def compare(x: torch.Tensor, relation: str, y: torch.Tensor) -> torch.Tensor:
    """Return where x is `lt`, `le`, `eq`, `ne`, `ge` or `gt` than y."""
    holds: torch.Tensor = getattr(torch, relation)(x, y)
    return holds


def mean_loss(
    loss: Callable[..., torch.Tensor], x: torch.Tensor, target: torch.Tensor, *, count: int, **options: float
) -> torch.Tensor:
    """Return this shard's share of the mean of a loss over `count` elements."""
    if x.shape != target.shape:
        raise ValueError(f"a loss of {tuple(x.shape)} and {tuple(target.shape)}")
    return loss(_at_least_float32(x), _at_least_float32(target), reduction="sum", **options) / count


def token_loss(
    logits: torch.Tensor, labels: torch.Tensor, *, ignore_index: int, label_smoothing: float = 0.0
) -> torch.Tensor:
    """Return each token's negative log-likelihood, zero where the label is ignored."""
    logits = _at_least_float32(logits)
    rows, classes = logits.flatten(0, -2), labels.flatten()
    loss = F.cross_entropy(rows, classes, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing)
    return loss.view(labels.shape)


def row_max(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return the largest entry of each row, without gradient; −∞ where a rank's rows are empty."""
    if not x.shape[dim]:
        return _at_least_float32(x.detach().sum(dim) - math.inf)
    return _at_least_float32(x.detach().amax(dim))


def sum_exp(x: torch.Tensor, maximum: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return Σ exp(x − maximum) of each row."""
    return (_at_least_float32(x) - maximum.unsqueeze(dim)).exp().sum(dim)


def softmax_scale(x: torch.Tensor, maximum: torch.Tensor, sum_exp: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return exp(x − maximum) / Σ exp of each row."""
    return ((_at_least_float32(x) - maximum.unsqueeze(dim)).exp() / sum_exp.unsqueeze(dim)).to(x.dtype)


def log_softmax_shift(x: torch.Tensor, maximum: torch.Tensor, sum_exp: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return x − maximum − log Σ exp of each row."""
    return (_at_least_float32(x) - maximum.unsqueeze(dim) - sum_exp.log().unsqueeze(dim)).to(x.dtype)


def pick_target(
    logits: torch.Tensor, labels: torch.Tensor, *, first: int, label_smoothing: float = 0.0, classes: int = 1
) -> torch.Tensor:
    """Return each label's logit, zero where the label is not among the columns `first …`.

    With smoothing it is mixed with the mean over all classes, of which this shard has a share.
    """
    local = labels - first
    outside = (local < 0) | (local >= logits.shape[-1])
    # A rank without columns picks one of padding, so that its gradient is there and empty.
    columns = logits if logits.shape[-1] else F.pad(logits, (0, 1))
    picked = columns.gather(-1, local.masked_fill(outside, 0).unsqueeze(-1)).squeeze(-1)
    picked = _at_least_float32(picked.masked_fill(outside, 0))
    if not label_smoothing:
        return picked
    return (1 - label_smoothing) * picked + label_smoothing / classes * _at_least_float32(logits).sum(-1)


def log_loss(
    sum_exp: torch.Tensor, maximum: torch.Tensor, picked: torch.Tensor, labels: torch.Tensor, *, ignore_index: int
) -> torch.Tensor:
    """Return log Σ exp − target logit, zero where the label is ignored."""
    return (sum_exp.log() + maximum - picked).masked_fill(labels == ignore_index, 0)


def count_targets(labels: torch.Tensor, *, ignore_index: int) -> torch.Tensor:
    """Return the number of labels that are not ignored, as fp32."""
    return (labels != ignore_index).sum().float()


def divide(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return total / count; zero targets give zero."""
    return total / count.clamp(min=1).to(total.dtype)


def dropout(
    x: torch.Tensor, *, p: float, key: tuple[int, ...], origin: tuple[int, ...], shape: tuple[int, ...]
) -> torch.Tensor:
    """Zero a share `p` of the elements and divide the others by 1 − p.

    An element's lot is drawn from `key` and its index in the whole tensor, so each rank draws for its elements what any
    other would: SplitMix64 at that index (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

    Parameters
    ----------
    key
        Seed, operator, layer and step.
    origin
        Global index, per dim, of this shard's first element.
    shape
        Global shape; the first size is not used.
    """
    stream = 0
    for part in key:
        stream = _mixed(stream + (part + 1) * _GOLDEN)
    index = torch.zeros((), dtype=torch.int64, device=x.device)
    for first, here, size in zip(origin, x.shape, shape, strict=True):
        index = index.unsqueeze(-1) * size + torch.arange(first, first + here, device=x.device)
    # Products of 64-bit integers wrap around, as they should.
    z = index * _signed(_GOLDEN) + _signed(stream)
    for shift, factor in _ROUNDS:
        z = (z ^ _shifted(z, shift)) * _signed(factor)
    lot = _shifted(z ^ _shifted(z, 31), 32)
    return x.masked_fill(lot < round(p * 2**32), 0) * (1 / (1 - p))


_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def _mixed(z: int) -> int:
    """Return SplitMix64's hash of a Python integer."""
    z %= 2**64
    for shift, factor in _ROUNDS:
        z = (z ^ z >> shift) * factor % 2**64
    return z ^ z >> 31


def _shifted(z: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right without the sign."""
    return z >> by & (1 << 64 - by) - 1


def _signed(number: int) -> int:
    """Return the 64-bit integer, with a sign, that has the same bits."""
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number


def _at_least_float32(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
