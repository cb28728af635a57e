"""What a bucket of gradients is passed as, where that is less than what it is.

Numbers of 16 bits are added up on their way. Of int8 and signs a sum would be no such number: each rank sends every
other its part, adds up what it gets, and where all want the whole sum, passes its part on compressed again. What
rounding takes away is kept and added the next time (error feedback: Seide et al. 2014, "1-Bit stochastic gradient
descent"; Karimireddy et al. 2019, "Error feedback fixes SignSGD"), by those who send and by those who pass on. An
infinite or undefined gradient arrives as such, and nothing is kept of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.distributed as dist

from .fusion import Launched, part_of_sum, summed
from .gradients import Memory
from .mesh import Axes, Mesh
from .steps import gather_rows, logged

BLOCK = 1024
"""Elements that share a scale."""


class BFloat16:
    """Round to bfloat16, which has the range of float32."""

    def all_reduce(self, x: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return the sum over the group."""
        return (yield from summed(x.bfloat16(), axes, mesh)).to(x.dtype)

    def reduce_scatter(self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return this rank's part of the sum."""
        return (yield from part_of_sum(parts.bfloat16(), axes, mesh)).to(parts.dtype)


class Float16:
    """Round to float16 on a scale that all ranks share: the largest sum there can be is near the largest number."""

    def all_reduce(self, x: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return the sum over the group."""
        scale = yield from self._scale(x, axes, mesh)
        return (yield from summed((x * scale).half(), axes, mesh)).to(x.dtype) / scale

    def reduce_scatter(self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return this rank's part of the sum."""
        scale = yield from self._scale(parts, axes, mesh)
        return (yield from part_of_sum((parts * scale).half(), axes, mesh)).to(parts.dtype) / scale

    def _scale(self, x: torch.Tensor, axes: Axes, mesh: Mesh) -> Launched[torch.Tensor]:
        """Return a power of two, so that scaling itself rounds nothing."""
        largest = x.abs().amax().float() if x.numel() else x.new_zeros((), dtype=torch.float32)
        yield dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=mesh.group(axes), async_op=True), True
        logged(mesh, "all_reduce", axes, largest, largest)
        room = torch.finfo(torch.float16).max / (mesh.size(*axes) * largest)
        scale = torch.exp2(torch.floor(torch.log2(room)))
        return torch.where(torch.isfinite(scale) & (scale > 0), scale, 1.0).to(x.dtype)


class _Blocks(ABC):
    """Send numbers of few bits in blocks with a scale, and keep what rounding takes away."""

    @abstractmethod
    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows of numbers as rows of bytes, and the scale of each block."""

    @abstractmethod
    def decode(self, numbers: torch.Tensor, size: int) -> torch.Tensor:
        """Return rows of `size` numbers on the scale 1."""

    @abstractmethod
    def number_bytes(self, size: int) -> int:
        """Return the bytes of `size` numbers."""

    def all_reduce(self, x: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return the sum over the group."""
        ranks = mesh.size(*axes)
        part = -(-len(x) // ranks)
        parts = x.new_zeros(ranks * part)
        parts[: len(x)] = x
        mine = yield from self._summands(parts.view(ranks, part), axes, mesh, memory, more=True)
        sent = self._compressed(mine.unsqueeze(0), memory, "passed on")
        out, work = gather_rows(sent.view(-1), ranks, mesh.group(axes))
        yield work, False
        logged(mesh, "all_gather", axes, sent, out)
        return self._expanded(out, part, x.dtype).view(-1)[: len(x)]

    def reduce_scatter(self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return this rank's part of the sum."""
        return (yield from self._summands(parts, axes, mesh, memory, more=False))

    def _summands(
        self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory, *, more: bool
    ) -> Launched[torch.Tensor]:
        """Send every rank its part, and add up what comes."""
        sent = self._compressed(parts, memory, "sent")
        out = torch.empty_like(sent)
        yield dist.all_to_all_single(out, sent, group=mesh.group(axes), async_op=True), more
        logged(mesh, "all_to_all", axes, sent, out)
        return self._expanded(out, parts.shape[1], parts.dtype).sum(0)

    def _compressed(self, x: torch.Tensor, memory: Memory, what: str) -> torch.Tensor:
        """Return rows of bytes for rows of numbers, with what was lost the last time."""
        if what in memory:
            x = x + memory[what].to(x.dtype)
        numbers, scales = self.encode(x)
        rows = torch.cat([numbers, scales.view(torch.uint8)], dim=1)
        lost = x - self._expanded(rows, x.shape[1], x.dtype)
        memory[what] = torch.where(torch.isfinite(lost), lost, 0)
        return rows

    def _expanded(self, rows: torch.Tensor, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Return rows of numbers for rows of bytes."""
        cut = self.number_bytes(size)
        # A copy, since four bytes are one number only where they begin at a multiple of four.
        scales = rows[:, cut:].clone(memory_format=torch.contiguous_format).view(torch.float32).to(dtype)
        return self.decode(rows[:, :cut], size).to(dtype) * scales.repeat_interleave(BLOCK, dim=1)[:, :size]


class Int8(_Blocks):
    """Round to a whole number from −127 to 127 times the scale: the largest of the block, by 127."""

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows of numbers as rows of bytes, and the scale of each block."""
        blocks = _blocks(x)
        scales = (blocks.abs().amax(2) / 127).float()
        # A block of zeros has none to divide by.
        by = torch.where(scales > 0, scales, 1.0).to(x.dtype).unsqueeze(2)
        rounded = (blocks / by).round().clamp(-127, 127).nan_to_num().to(torch.int8)
        return rounded.flatten(1)[:, : x.shape[1]].contiguous().view(torch.uint8), scales

    def decode(self, numbers: torch.Tensor, size: int) -> torch.Tensor:
        """Return rows of numbers on the scale 1."""
        return numbers.contiguous().view(torch.int8)

    def number_bytes(self, size: int) -> int:
        """Return the bytes of `size` numbers."""
        return size


class OneBit(_Blocks):
    """Keep the sign; the scale is the mean of the block's magnitudes, which is what loses least."""

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows of numbers as rows of bytes, and the scale of each block."""
        blocks = _blocks(x)
        sizes = torch.full(blocks.shape[1:2], BLOCK, dtype=x.dtype, device=x.device)
        sizes[-1:] = x.shape[1] - BLOCK * (blocks.shape[1] - 1)
        scales = (blocks.abs().sum(2) / sizes).float()
        bits = torch.nn.functional.pad((x >= 0).to(torch.uint8), (0, -x.shape[1] % 8))
        return (bits.unflatten(1, (-1, 8)) << _places(x)).sum(2, dtype=torch.uint8), scales

    def decode(self, numbers: torch.Tensor, size: int) -> torch.Tensor:
        """Return rows of 1 and −1."""
        bits = numbers.unsqueeze(2) >> _places(numbers) & 1
        return bits.flatten(1)[:, :size].to(torch.int8) * 2 - 1

    def number_bytes(self, size: int) -> int:
        """Return the bytes of `size` numbers."""
        return -(-size // 8)


def _blocks(x: torch.Tensor) -> torch.Tensor:
    """Return rows cut into blocks, the last one filled up with zeros."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))


def _places(like: torch.Tensor) -> torch.Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)
