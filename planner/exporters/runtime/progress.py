"""What a run tells about itself: a line and a JSON object for some steps, by rank 0.

MFU is the planned FLOPs of the whole model (nothing that is computed twice counts) over what all planned devices could
do in the same time; on a CPU there is none.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from dataclasses import asdict, dataclass
from time import perf_counter

import torch
import torch.distributed as dist

from .mesh import Mesh
from .scaling import LossScale
from .settings import Settings


@dataclass(frozen=True)
class Record:
    """One line of the log; None for what there is none of.

    Parameters
    ----------
    step, loss, gradient_norm, learning_rate, loss_scale
        Of this step; the norm is that before clipping.
    skipped
        Steps of the run so far that were left out because of infinite gradients.
    seconds, samples_per_second, tokens_per_second, mfu
        Means over the steps since the last line.
    memory_bytes
        The most that any rank needed so far: allocated on its GPU, or resident on a CPU.
    """

    step: int
    loss: float | None
    gradient_norm: float | None
    learning_rate: float
    loss_scale: float | None
    skipped: int
    seconds: float
    samples_per_second: float
    tokens_per_second: float | None
    mfu: float | None
    memory_bytes: int

    def json(self) -> str:
        """Return it as JSON, always the same keys in the same order."""
        return json.dumps(asdict(self), allow_nan=False)

    def text(self) -> str:
        """Return it as a line for people."""
        parts = [f"step {self.step}", f"loss {self.loss if self.loss is not None else math.nan:.6g}"]
        if self.gradient_norm is not None:
            parts.append(f"norm {self.gradient_norm:.4g}")
        parts.append(f"lr {self.learning_rate:.3g}")
        if self.loss_scale is not None:
            parts.append(f"scale {self.loss_scale:g}, {self.skipped} skipped")
        parts.append(f"{self.seconds:.4g} s")
        tokens = self.tokens_per_second
        parts.append(f"{self.samples_per_second:,.4g} samples/s" if tokens is None else f"{tokens:,.0f} tokens/s")
        if self.mfu is not None:
            parts.append(f"MFU {100 * self.mfu:.1f} %")
        parts.append(f"{self.memory_bytes / 2**30:.2f} GiB")
        return "  ".join(parts)


class Progress:
    """Times steps and writes records.

    Parameters
    ----------
    dtype
        What the model computes in.
    file
        Where JSON lines are appended.
    """

    def __init__(self, settings: Settings, mesh: Mesh, *, dtype: str, file: str | None) -> None:
        self.settings, self.mesh, self.file = settings, mesh, file
        gpu = mesh.device.type == "cuda"
        self.peak = settings.peak_flops.get(dtype, 0.0) * mesh.size(*mesh.sizes) if gpu else 0.0
        self._since = perf_counter()
        self._steps = 0

    def passed(self) -> None:
        """Count a step."""
        self._steps += 1

    def write(
        self,
        *,
        step: int,
        loss: torch.Tensor,
        norm: torch.Tensor | None,
        rate: float,
        scale: LossScale | None,
        skipped: int,
    ) -> Record:
        """Write about the last step and those since the last record; all ranks call it together."""
        value = loss.item()  # waits for the device, so that the time is that of finished steps
        seconds = (perf_counter() - self._since) / max(self._steps, 1)
        memory = self._memory()
        record = Record(
            step=step,
            loss=_finite(value),
            gradient_norm=None if norm is None else _finite(norm.item()),
            learning_rate=rate,
            loss_scale=None if scale is None else scale.value,
            skipped=skipped,
            seconds=seconds,
            samples_per_second=self.settings.samples / seconds,
            tokens_per_second=self.settings.samples * self.settings.tokens / seconds if self.settings.tokens else None,
            mfu=self.mfu(seconds),
            memory_bytes=memory,
        )
        if self.mesh.rank == 0:
            print(record.text(), flush=True)
            if self.file is not None:
                with open(self.file, "a", encoding="utf-8") as file:
                    file.write(record.json() + "\n")
        self._since, self._steps = perf_counter(), 0
        return record

    def mfu(self, seconds: float) -> float | None:
        """Return the share of the devices' peak that steps of so many seconds use; None where there is no peak."""
        return self.settings.flops / seconds / self.peak if self.peak and self.settings.flops else None

    def _memory(self) -> int:
        device = self.mesh.device
        if device.type == "cuda":
            most = torch.cuda.max_memory_allocated(device)
        else:
            # Kibibytes on Linux, bytes on macOS.
            unit = 1 if sys.platform == "darwin" else 1024
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        if not dist.is_initialized():
            return most
        largest = torch.tensor(most, device=device)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return int(largest)


def _finite(value: float) -> float | None:
    """Return a number that JSON can write, or None."""
    return value if math.isfinite(value) else None
