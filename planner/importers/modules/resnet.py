"""ResNet of bottleneck blocks, with a cross-entropy over its classes.

Names are those of torchvision's checkpoints; strides lie on the 3×3 convolution, as there ("v1.5").
Source: He et al. 2015, "Deep Residual Learning for Image Recognition", table 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EXPANSION = 4
"""Channels that a block gives for each channel that it works in."""


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a residual connection.

    Parameters
    ----------
    channels
        Of the input.
    width
        Channels of the 3×3 convolution; the block gives four times as many.
    stride
        Of the 3×3 convolution.
    """

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = EXPANSION * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
            )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return images of `4 · width` channels, `stride` times smaller."""
        hidden = self.relu(self.bn1(self.conv1(x)))
        hidden = self.relu(self.bn2(self.conv2(hidden)))
        hidden = self.bn3(self.conv3(hidden))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(hidden + shortcut)


class ResNet(nn.Module):
    """The network with its loss.

    Parameters
    ----------
    blocks
        Number of blocks in each of the four stages.
    width
        Channels of the stem, and of the 3×3 convolutions in the first stage; they double from stage to stage.
    classes
        Number of classes.
    """

    def __init__(self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = width
        for stage, count in enumerate(blocks):
            inner, stride = width << stage, 1 if stage == 0 else 2
            layers = [Bottleneck(channels, inner, stride)]
            channels = EXPANSION * inner
            layers += [Bottleneck(channels, inner, 1) for _ in range(count - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.stages = len(blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and logits of images `[B, 3, H, W]` and class labels `[B]`."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in range(self.stages):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        logits = self.fc(torch.flatten(self.avgpool(x), 1))
        return F.cross_entropy(logits, labels), logits
