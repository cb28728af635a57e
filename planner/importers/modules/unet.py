"""The U-Net of a latent diffusion model: it predicts the noise in a latent image from timestep and text.

Source: Rombach et al. 2021, "High-Resolution Image Synthesis with Latent Diffusion Models", section 3.3, appendix E;
the default sizes are those of Stable Diffusion 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .positions import sinusoids
from .unet_parts import Downsample2D, ResnetBlock2D, Transformer2DModel, Upsample2D


class TimestepEmbedding(nn.Module):
    """Features of timesteps → vectors."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(features, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, width]`."""
        return self.linear_2(F.silu(self.linear_1(x)))


class Level(nn.Module):
    """The blocks at one resolution, on the way down, at the bottom or on the way up.

    Parameters
    ----------
    shapes
        Input and output channels of each residual block.
    transformers
        Number of transformers after residual blocks; at the bottom, there is one less than residual blocks.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, int]], transformers: int, *, time: int, context: int, heads: int, groups: int
    ) -> None:
        super().__init__()
        width = shapes[0][1]
        if transformers:
            self.attentions = nn.ModuleList(
                Transformer2DModel(width, context, heads, groups) for _ in range(transformers)
            )
        self.resnets = nn.ModuleList(ResnetBlock2D(before, after, time, groups) for before, after in shapes)
        self.transformers = transformers

    def step(self, index: int, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        """Return x after a residual block and the transformer that follows it, if one does."""
        x = self.resnets[index](x, time)
        return self.attentions[index](x, context) if index < self.transformers else x


class DownBlock(Level):
    """A level on the way down; what each step gives is kept for the way up."""

    def __init__(self, shapes: Sequence[tuple[int, int]], transformers: int, *, last: bool, **sizes: int) -> None:
        super().__init__(shapes, transformers, **sizes)
        self.downsamplers = None if last else nn.ModuleList([Downsample2D(shapes[0][1])])

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the smaller image, and all that is kept."""
        kept = []
        for index in range(len(self.resnets)):
            x = self.step(index, x, time, context)
            kept.append(x)
        if self.downsamplers is not None:
            x = self.downsamplers[0](x)
            kept.append(x)
        return x, kept


class MidBlock(Level):
    """The level at the bottom."""

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        """Return an image of the same shape."""
        for index in range(len(self.resnets)):
            x = self.step(index, x, time, context)
        return x


class UpBlock(Level):
    """A level on the way up; each step reads what was kept."""

    def __init__(self, shapes: Sequence[tuple[int, int]], transformers: int, *, last: bool, **sizes: int) -> None:
        super().__init__(shapes, transformers, **sizes)
        self.upsamplers = None if last else nn.ModuleList([Upsample2D(shapes[0][1])])

    def forward(self, x: Tensor, kept: list[Tensor], time: Tensor, context: Tensor) -> Tensor:
        """Return the larger image; takes what it reads from the end of `kept`."""
        for index in range(len(self.resnets)):
            x = self.step(index, torch.cat((x, kept.pop()), dim=1), time, context)
        return x if self.upsamplers is None else self.upsamplers[0](x)


class UNet(nn.Module):
    """The network with its loss, the mean squared error of the predicted noise.

    Parameters
    ----------
    channels
        Of the latent image.
    widths
        Channels at each resolution, from the finest; the coarsest has no transformers on its way down and up.
    blocks
        Residual blocks at each resolution on the way down; there is one more on the way up.
    context
        Width of the text's tokens.
    heads
        Of every attention.
    groups
        Of every group norm.
    """

    def __init__(
        self, channels: int = 4, widths: Sequence[int] = (320, 640, 1280, 1280), blocks: int = 2, context: int = 768,
        heads: int = 8, groups: int = 32,
    ) -> None:  # fmt: skip
        super().__init__()
        first, bottom, levels = widths[0], widths[-1], len(widths)
        sizes = {"time": 4 * first, "context": context, "heads": heads, "groups": groups}
        self.features = first
        self.conv_in = nn.Conv2d(channels, first, 3, padding=1)
        self.time_embedding = TimestepEmbedding(first, 4 * first)
        down, kept, before = [], [first], first
        for level, width in enumerate(widths):
            last = level == levels - 1
            shapes = [(before if i == 0 else width, width) for i in range(blocks)]
            down.append(DownBlock(shapes, 0 if last else blocks, last=last, **sizes))
            kept += [width] * (blocks if last else blocks + 1)
            before = width
        self.down_blocks = nn.ModuleList(down)
        self.mid_block = MidBlock([(bottom, bottom)] * 2, 1, **sizes)
        up = []
        for level, width in enumerate(reversed(widths)):
            shapes = [((before if i == 0 else width) + kept.pop(), width) for i in range(blocks + 1)]
            up.append(UpBlock(shapes, blocks + 1 if level else 0, last=level == levels - 1, **sizes))
            before = width
        self.up_blocks = nn.ModuleList(up)
        self.conv_norm_out = nn.GroupNorm(groups, first, eps=1e-5)
        self.conv_out = nn.Conv2d(first, channels, 3, padding=1)

    def forward(self, latents: Tensor, timesteps: Tensor, context: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and predicted noise of noisy latents `[B, C, H, W]`, timesteps `[B]` and a text `[B, M, …]`."""
        time = self.time_embedding(sinusoids(timesteps, self.features, latents.dtype))
        x = self.conv_in(latents)
        kept = [x]
        for block in self.down_blocks:
            x, more = block(x, time, context)
            kept += more
        x = self.mid_block(x, time, context)
        for block in self.up_blocks:
            x = block(x, kept, time, context)
        predicted = self.conv_out(F.silu(self.conv_norm_out(x)))
        return F.mse_loss(predicted, noise), predicted
