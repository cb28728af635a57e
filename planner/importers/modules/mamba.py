"""Mamba-2: a language model of selective state spaces, computed chunk by chunk by products of matrices.

A head's state `H [p, n]` follows `H_t = exp(Δ_t·A)·H_{t-1} + Δ_t·x_t ⊗ B_t` and gives `y_t = H_t·C_t + D·x_t`. Within a
chunk that is a product with a lower triangle of decays; between chunks, decays of whole chunks carry the states. Names
are those of the published checkpoints. The sequence length is fixed, a whole number of chunks.

Source: Dao & Gu 2024, "Transformers are SSMs", section 6 and listing 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    """x / √(mean x² + ε) · weight."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return `[…, h]`."""
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def decays(steps: Tensor) -> Tensor:
    """Return exp of the sum of steps after `j` up to `i`, and 0 where `j > i`: `[…, t]` → `[…, t, t]`."""
    total = steps.cumsum(-1)
    differences = total.unsqueeze(-1) - total.unsqueeze(-2)
    # Above the diagonal they are positive: cut off before, lest their exponentials overflow.
    return differences.tril().exp().tril()


class Mixer(nn.Module):
    """The state-space layer.

    Parameters
    ----------
    heads, head_dim
        The inner width is their product.
    state
        Numbers of state for each inner channel.
    window
        Of the causal convolution before the states.
    chunk
        Tokens that are taken together.
    """

    def __init__(self, width: int, heads: int, head_dim: int, state: int, window: int, chunk: int) -> None:
        super().__init__()
        inner = heads * head_dim
        self.heads, self.head_dim, self.state, self.chunk = heads, head_dim, state, chunk
        self.sizes = (inner, inner, state, state, heads)
        self.in_proj = nn.Linear(width, sum(self.sizes), bias=False)
        mixed = inner + 2 * state
        self.conv1d = nn.Conv1d(mixed, mixed, window, padding=window - 1, groups=mixed)
        self.dt_bias = nn.Parameter(torch.ones(heads))
        self.A_log = nn.Parameter(torch.zeros(heads))
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, t, h]`."""
        batch, length, _ = x.shape
        gate, hidden, b, c, step = self.in_proj(x).split(self.sizes, dim=-1)
        mixed = torch.cat((hidden, b, c), dim=-1).transpose(1, 2)
        # The convolution pads both ends; what looks ahead is cut off.
        mixed = F.silu(self.conv1d(mixed)[..., :length].transpose(1, 2))
        hidden, b, c = mixed.split((self.sizes[0], self.state, self.state), dim=-1)
        step = F.softplus(step + self.dt_bias)
        hidden = hidden.view(batch, length, self.heads, self.head_dim)
        y = self.scan(hidden, step, b, c) + self.D.unsqueeze(-1) * hidden
        y = y.reshape(batch, length, self.heads * self.head_dim)
        return self.out_proj(self.norm(y * F.silu(gate)))

    def scan(self, x: Tensor, step: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Return `H_t·C_t` for x `[B, t, heads, p]`, steps Δ `[B, t, heads]`, B and C `[B, t, n]`."""
        batch, length, heads, width = x.shape
        chunks, q = length // self.chunk, self.chunk
        a = (step * -self.A_log.exp()).view(batch, chunks, q, heads).permute(0, 3, 1, 2)
        x = (x * step.unsqueeze(-1)).view(batch, chunks, q, heads, width).permute(0, 3, 1, 2, 4)
        b, c = b.view(batch, 1, chunks, q, self.state), c.view(batch, 1, chunks, q, self.state)
        scores = torch.matmul(c, b.transpose(-1, -2)) * decays(a)
        within = torch.matmul(scores, x)
        total = a.cumsum(-1)
        # What each chunk adds to the state at its end: [B, heads, chunks, n, p].
        left = (total[..., -1:] - total).exp().unsqueeze(-1)
        states = torch.matmul(b.transpose(-1, -2), x * left)
        # The state before chunk i is what chunks j < i left of it: decayed by the chunks between.
        ends = F.pad(total[..., -1], (1, 0))
        between = decays(ends)[..., :-1, 1:]
        carried = torch.matmul(between, states.flatten(3)).view(batch, heads, chunks, self.state, width)
        across = torch.matmul(c, carried) * total.exp().unsqueeze(-1)
        return (within + across).permute(0, 2, 3, 1, 4).reshape(batch, length, heads, width)


class Block(nn.Module):
    """A norm and the layer beside a residual connection."""

    def __init__(self, width: int, mixer: Mixer) -> None:
        super().__init__()
        self.norm = RMSNorm(width)
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, t, h]`."""
        return x + self.mixer(self.norm(x))


class Backbone(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, vocab: int, width: int, blocks: list[Block]) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(blocks)
        self.norm_f = RMSNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return `[B, t, h]` of tokens `[B, t]`."""
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm_f(x)


class Mamba2(nn.Module):
    """The language model with its loss; the head is the embedding.

    Parameters
    ----------
    heads, head_dim, state, window, chunk
        See `Mixer`.
    """

    def __init__(
        self, vocab: int = 50_288, width: int = 768, depth: int = 24, heads: int = 24, head_dim: int = 64,
        state: int = 128, window: int = 4, chunk: int = 256,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone = Backbone(
            vocab, width, [Block(width, Mixer(width, heads, head_dim, state, window, chunk)) for _ in range(depth)]
        )
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.backbone.embeddings.weight

    def forward(self, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and logits of tokens `[B, t]` and the tokens that follow them (−100: none)."""
        logits = self.lm_head(self.backbone(tokens))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits
