"""Drop gathered parameters after forward and gather them again when backward asks for them (ZeRO-3).

Autograd keeps what an operator needs for backward. Inside `regathering()`, a tensor that `remember` was told about is
not kept; how to make it again is kept instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

Make = Callable[[], torch.Tensor]
_makers: dict[int, Make] = {}


def remember(tensor: torch.Tensor, make: Make) -> None:
    """Note that `make()` gives `tensor` again; forgotten when the tensor goes."""
    key = tensor.untyped_storage().data_ptr()
    _makers[key] = make
    weakref.finalize(tensor, _forget, key, make)


def told_apart(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in a place of its own: empty tensors have none by which they could be remembered.

    Where some ranks get an empty shard and others do not, all must fetch again, or those that do would wait for ever.
    """
    return tensor if tensor.numel() else tensor.new_empty(1)[:0].view(tensor.shape)


def _forget(key: int, make: Make) -> None:
    if _makers.get(key) is make:
        del _makers[key]


@dataclass
class Values:
    """Whether values of dropped tensors matter; where only their shapes do, they are not made again."""

    wanted: bool = True

    @contextmanager
    def unwanted(self) -> Iterator[None]:
        """Say that they do not, inside the block."""
        self.wanted = False
        try:
            yield
        finally:
            self.wanted = True


@dataclass(frozen=True)
class _Dropped:
    """A view of a tensor that is made again."""

    like: torch.Tensor
    make: Make
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


@contextmanager
def regathering(values: Values | None = None) -> Iterator[None]:
    """Apply to everything that autograd saves inside the block."""
    told = values or Values()

    def pack(tensor: torch.Tensor) -> torch.Tensor | _Dropped:
        make = _makers.get(tensor.untyped_storage().data_ptr())
        if make is None:
            return tensor
        return _Dropped(tensor.new_empty(0), make, tensor.size(), tensor.stride(), int(tensor.storage_offset()))

    def unpack(kept: torch.Tensor | _Dropped) -> torch.Tensor:
        if isinstance(kept, torch.Tensor):
            return kept
        if not told.wanted:
            return kept.like.new_empty_strided(kept.size, kept.stride)
        return kept.make().as_strided(kept.size, kept.stride, kept.offset)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield
