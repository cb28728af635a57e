"""End by a signal: finish the step, on all ranks alike.

A scheduler that wants the machines back sends SIGTERM, a terminal SIGINT, and not to all ranks at the same moment: the
ranks agree after each step. Who is in a hurry sends a signal three times.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

import torch
import torch.distributed as dist

HEARD = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Hears signals inside its block.

    Attributes
    ----------
    number
        The last signal that this rank heard; 0 for none.
    """

    def __init__(self, device: torch.device) -> None:
        self.number = 0
        self._device = device
        self._heard = 0
        self._before: list[tuple[signal.Signals, object]] = []

    def __enter__(self) -> Stop:
        self._before = [(each, signal.signal(each, self._hear)) for each in HEARD]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before:
            signal.signal(each, handler)  # type: ignore[arg-type]

    def agreed(self) -> int:
        """Return the signal that any rank heard, 0 for none; all ranks ask at the same place and hear the same."""
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return self.number
        heard = torch.tensor(self.number, device=self._device)
        dist.all_reduce(heard, op=dist.ReduceOp.MAX)
        return int(heard)

    def _hear(self, number: int, _: FrameType | None) -> None:
        self.number = number
        self._heard += 1
        if self._heard == 3:
            raise KeyboardInterrupt
