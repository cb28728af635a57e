"""Numbers that a model writes keep their values where its tensors have none.

`torch.tensor(0.5, device=x.device)` is traced as a tensor that is filled: as one of data, its value would be lost on
the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Literals(TorchFunctionMode):
    """Within it, tensors of one number are filled with it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run a function of torch, or the one that keeps the value of what is written."""
        given = kwargs or {}
        if func is torch.tensor and len(args) == 1 and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **given)
        return func(*args, **given)
