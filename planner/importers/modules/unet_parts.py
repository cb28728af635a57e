"""The parts of the diffusion U-Net: residual blocks that know the timestep, and transformers that look at a text.

Names are those of the published checkpoints of latent diffusion models.
Source: Rombach et al. 2021, "High-Resolution Image Synthesis with Latent Diffusion Models", section 3.3, appendix E.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class ResnetBlock2D(nn.Module):
    """Two 3×3 convolutions, with the timestep added between them, beside a residual connection."""

    def __init__(self, channels: int, out: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels, eps=1e-5)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, out)
        self.norm2 = nn.GroupNorm(groups, out, eps=1e-5)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return `[B, out, H, W]` of x `[B, channels, H, W]` and time `[B, time]`."""
        hidden = self.conv1(F.silu(self.norm1(x)))
        hidden = hidden + self.time_emb_proj(F.silu(time)).unsqueeze(-1).unsqueeze(-1)
        hidden = self.conv2(F.silu(self.norm2(hidden)))
        return hidden + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    """Attention to the tokens of `context`."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Return `[B, N, h]` of x `[B, N, h]` and context `[B, M, …]`."""
        q, k, v = (self.split(part) for part in (self.to_q(x), self.to_k(context), self.to_v(context)))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.to_out[0](mixed.reshape(x.shape))

    def split(self, x: Tensor) -> Tensor:
        """Return `[B, heads, N, e]` of `[B, N, heads·e]`."""
        return x.view(x.shape[0], x.shape[1], self.heads, self.head_dim).transpose(1, 2)


class GEGLU(nn.Module):
    """One projection, half of which gates the other half."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 2 * inner)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, N, inner]`."""
        hidden, gate = self.proj(x).chunk(2, dim=-1)
        return hidden * F.gelu(gate)


class FeedForward(nn.Module):
    """GEGLU and a projection back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.ModuleList([GEGLU(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, N, h]`."""
        for layer in self.net:
            x = layer(x)
        return x


class BasicTransformerBlock(nn.Module):
    """Attention to the image itself, attention to the text, feed-forward."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn1 = Attention(width, width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.attn2 = Attention(width, context, heads)
        self.norm3 = nn.LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Return `[B, N, h]`."""
        normed = self.norm1(x)
        x = x + self.attn1(normed, normed)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer2DModel(nn.Module):
    """An image as tokens through transformer blocks, beside a residual connection."""

    def __init__(self, width: int, context: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([BasicTransformerBlock(width, context, heads)])
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Return `[B, C, H, W]`."""
        tokens = self.proj_in(self.norm(x)).permute(0, 2, 3, 1).flatten(1, 2)
        for block in self.transformer_blocks:
            tokens = block(tokens, context)
        image = tokens.view(x.shape[0], x.shape[2], x.shape[3], x.shape[1]).permute(0, 3, 1, 2)
        return x + self.proj_out(image)


class Downsample2D(nn.Module):
    """Half the height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, C, H/2, W/2]`."""
        return self.conv(x)


class Upsample2D(nn.Module):
    """Twice the height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, C, 2H, 2W]`."""
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
