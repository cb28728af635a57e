"""Lists of one number as an index, `x[:, [-1]]`, are traced as the slice that they are.

Torch makes a tensor of such a list on the device of what is indexed; on the meta device, its value is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class ListsAsSlices(TorchFunctionMode):
    """Within it, a tensor that is read at a list of one number is sliced."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run a function of torch; reads by lists are written as slices."""
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
