"""DiT: a transformer that predicts the noise in latent images, steered by class and timestep through its norms.

It predicts the noise alone, not its variance. Names are those of the authors' checkpoints.
Source: Peebles & Xie 2022, "Scalable Diffusion Models with Transformers", section 3.2, table 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .positions import grid_sinusoids, sinusoids

FREQUENCIES = 256
"""Features of a timestep before its MLP."""


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Return x `[B, N, h]` scaled and shifted by `[B, h]`."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class PatchEmbed(nn.Module):
    """Images → tokens, one a patch."""

    def __init__(self, patch: int, channels: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens `[B, N, h]` of images `[B, C, H, W]`."""
        return self.proj(x).flatten(2).transpose(1, 2)


class TimestepEmbedder(nn.Module):
    """Timesteps → vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, timesteps: Tensor, dtype: torch.dtype) -> Tensor:
        """Return `[B, h]` of timesteps `[B]`."""
        return self.mlp(sinusoids(timesteps, FREQUENCIES, dtype))


class LabelEmbedder(nn.Module):
    """Classes → vectors; one more class stands for "no class"."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.embedding_table = nn.Embedding(classes + 1, width)

    def forward(self, labels: Tensor) -> Tensor:
        """Return `[B, h]` of labels `[B]`."""
        return self.embedding_table(labels)


class Attention(nn.Module):
    """Attention of all tokens to all."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, N, h]`."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    """Two layers with GELU between."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, inner)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, N, h]`."""
        return self.fc2(self.act(self.fc1(x)))


class DiTBlock(nn.Module):
    """Attention and MLP, whose norms and gates come from the conditioning ("adaLN-Zero")."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(width, ratio * width)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return tokens `[B, N, h]`; `condition` is `[B, h]`."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(condition).chunk(6, dim=1)
        x = x + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift1, scale1))
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class FinalLayer(nn.Module):
    """Tokens → the numbers of their patches."""

    def __init__(self, width: int, numbers: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(width, numbers)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return `[B, N, patch² · C]`."""
        shift, scale = self.adaLN_modulation(condition).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class DiT(nn.Module):
    """The transformer with its loss.

    Parameters
    ----------
    size
        Height and width of the latent image.
    patch
        Height and width of a patch.
    channels
        Of the latent image.
    ratio
        Width of the MLP, in widths.
    classes
        Number of classes, without the one that stands for none.
    """

    def __init__(
        self, size: int = 32, patch: int = 2, channels: int = 4, width: int = 1152, depth: int = 28, heads: int = 16,
        ratio: int = 4, classes: int = 1000,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patch, self.channels, self.side = patch, channels, size // patch
        self.x_embedder = PatchEmbed(patch, channels, width)
        self.t_embedder = TimestepEmbedder(width)
        self.y_embedder = LabelEmbedder(classes, width)
        self.blocks = nn.ModuleList(DiTBlock(width, heads, ratio) for _ in range(depth))
        self.final_layer = FinalLayer(width, patch * patch * channels)

    def forward(self, latents: Tensor, timesteps: Tensor, classes: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and predicted noise of noisy latents `[B, C, H, W]`, timesteps `[B]` and classes `[B]`."""
        x = self.x_embedder(latents)
        x = x + grid_sinusoids(self.side, x.shape[2], x)
        condition = self.t_embedder(timesteps, x.dtype) + self.y_embedder(classes)
        for block in self.blocks:
            x = block(x, condition)
        predicted = self.images(self.final_layer(x, condition))
        return F.mse_loss(predicted, noise), predicted

    def images(self, x: Tensor) -> Tensor:
        """Return the images `[B, C, H, W]` that patches `[B, N, patch² · C]` make up."""
        side, patch, channels = self.side, self.patch, self.channels
        patches = x.view(x.shape[0], side, side, patch, patch, channels).permute(0, 5, 1, 3, 2, 4)
        return patches.reshape(x.shape[0], channels, side * patch, side * patch)
