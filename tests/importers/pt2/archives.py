"""Archives of small modules, as `torch.export.save` writes them, and archives that are changed by hand."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export, save
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Decoder(nn.Module):
    """Tied weights, a mask, buffers of two kinds, a region without gradients, several results, slices to the end."""

    def __init__(self, region: bool = True) -> None:
        super().__init__()
        self.region = region
        self.embed = nn.Embedding(20, 8)
        self.layers = nn.ModuleList([Layer(8), Layer(8)])
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight
        self.unused = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("scales", torch.tensor([2.0, 3.0]))
        self.register_buffer("bias", torch.arange(8) * 0.5, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        batch, seq = tokens.shape
        with torch.no_grad() if self.region else nullcontext():
            angles = torch.arange(seq, dtype=torch.float32)[:, None] * self.scales[0]
        x = x + (angles + self.bias).to(x.dtype)
        mask = torch.ones(seq, seq, dtype=torch.bool).tril()
        q = x.view(batch, seq, 2, 4).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(q, q, q, attn_mask=mask).transpose(1, 2).reshape(batch, seq, 8)
        left, right = x.chunk(2, dim=-1)
        best, _ = left.topk(2, dim=-1)
        x = torch.cat(
            (right[..., ::2], left[..., 1:], best, right.masked_fill(right > 1e9, float("-inf"))[..., :1]), -1
        )
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Classifier(nn.Module):
    """A convolution, statistics that are updated, and no sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.stem(images).mean((2, 3)))


TOKENS = torch.zeros(2, 6, dtype=torch.int64)
IMAGES = torch.zeros(2, 3, 8, 8)


def exported(module: nn.Module, *inputs: torch.Tensor, dims: tuple[Any, ...] | None = None) -> ExportedProgram:
    return export(module, inputs, dynamic_shapes=dims, strict=False)


def saved(program: ExportedProgram) -> bytes:
    file = io.BytesIO()
    save(program, file)
    return file.getvalue()


@cache
def decoder_archive() -> bytes:
    return saved(exported(Decoder(), TOKENS, dims=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)))


@cache
def classifier_archive() -> bytes:
    return saved(exported(Classifier(), IMAGES, dims=({0: Dim.DYNAMIC},)))


def members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as reader:
        return {entry.filename: reader.read(entry) for entry in reader.infolist()}


def zipped(parts: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as writer:
        for name, data in parts.items():
            writer.writestr(name, data)
    return file.getvalue()


def with_graph(archive: bytes, change: Callable[[Any], None]) -> bytes:
    """Return an archive with its graph changed."""
    parts = members(archive)
    (path,) = (name for name in parts if name.endswith("models/model.json"))
    graph = json.loads(parts[path])
    change(graph)
    return zipped(parts | {path: json.dumps(graph).encode()})
