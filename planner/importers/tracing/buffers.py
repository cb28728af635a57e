"""Modules whose parameters take no memory while their buffers hold what they hold: where each tensor is made.

A config's model may have 10¹² parameters, which only count by their shapes; what its buffers hold (inverse frequencies
of rotary positions, position ids, relative positions) is a part of what it computes. So, while a module is built,
whatever has no values yet (`empty`, `randn`, …) and whatever is large lies on the meta device, and small tensors with
values (`arange`, `ones`, `tensor`, …) on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

LARGEST = 1 << 22
"""Elements of the largest tensor that is made with its values."""
WITHOUT_VALUES = frozenset(
    {torch.empty, torch.empty_permuted, torch.empty_strided, torch.rand, torch.randn, torch.randint, torch.randperm,
     torch.normal}
)  # fmt: skip


class SmallValues(TorchFunctionMode):
    """Tensors that are made without a device lie on the CPU if they are small and have values, else on meta."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run a function of torch, with a device where it makes a tensor and none is named."""
        given = kwargs or {}
        if func not in _device_constructors() or given.get("device") is not None:
            return func(*args, **given)
        if func in WITHOUT_VALUES:
            return func(*args, **{**given, "device": "meta"})
        # `tensor` and its like hold their data already.
        named = func.__name__
        if named not in {"tensor", "as_tensor", "asarray", "scalar_tensor"}:
            planned = func(*args, **{**given, "device": "meta"})
            if planned.numel() > LARGEST:
                return planned
        return func(*args, **given)


class HeldIndices(TorchFunctionMode):
    """Lists that tensors are indexed with keep their values, wherever the tensors lie."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run a function of torch, with lists in an index made to tensors on the CPU."""
        if func is torch.Tensor.__getitem__:
            x, index = args
            parts = index if isinstance(index, tuple) else (index,)
            lists = [isinstance(part, list) and all(isinstance(v, int) for v in part) for part in parts]
            if any(lists):
                pairs = zip(parts, lists, strict=True)
                args = (x, tuple(torch.tensor(part, device="cpu") if is_list else part for part, is_list in pairs))
        return func(*args, **(kwargs or {}))


def to_meta(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Move every tensor of a module to the meta device, and return those that held values and are no parameters.

    Shared tensors stay shared. The keys are paths, also of tensors that a module holds as plain attributes.
    """
    moved: dict[int, torch.Tensor] = {}
    held: dict[str, torch.Tensor] = {}

    def meta(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "meta":
            return tensor
        if id(tensor) not in moved:
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            if isinstance(tensor, torch.nn.Parameter):
                empty = torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
            moved[id(tensor)] = empty
            # Keeps the id from being given to another tensor.
            keep.append(tensor)
        return moved[id(tensor)]

    keep: list[torch.Tensor] = []
    for path, part in module.named_modules(remove_duplicate=True):
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = meta(parameter)
        plain = {name: value for name, value in vars(part).items() if isinstance(value, torch.Tensor)}
        for name, tensor in [*part._buffers.items(), *plain.items()]:
            if tensor is None:
                continue
            if tensor.device.type != "meta":
                held[f"{path}.{name}" if path else name] = tensor.detach()
            if name in part._buffers:
                part._buffers[name] = meta(tensor)
            else:
                setattr(part, name, meta(tensor))
    return held
