"""Numbers that a model writes keep their values where its tensors have none.

`x[:, [-1]]` is traced as the slice that it is, and `torch.tensor(0.5, device=x.device)` as a tensor that is filled:
torch would make tensors of list and number on the device of x, and on the meta device their values would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Literals(TorchFunctionMode):
    """Within it, reads at a list of one number are slices, and tensors of one number are filled."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run a function of torch, or the one that keeps the value of what is written."""
        if func is torch.tensor and len(args) == 1 and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **(kwargs or {}))
        if func is torch.Tensor.__getitem__:
            x, index = args
            entries = index if isinstance(index, tuple) else (index,)
            # Beside another list or tensor, a list picks pairs.
            if sum(isinstance(entry, list | torch.Tensor) for entry in entries) == 1:
                args = (x, tuple(_slice(entry) for entry in entries))
        return func(*args, **(kwargs or {}))


def _slice(entry: Any) -> Any:
    if not (isinstance(entry, list) and len(entry) == 1 and type(entry[0]) is int):
        return entry
    (place,) = entry
    return slice(place, place + 1 if place != -1 else None)
