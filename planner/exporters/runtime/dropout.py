"""Dropout that falls alike however a tensor is sharded."""

from __future__ import annotations

import torch

_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def dropout(
    x: torch.Tensor, *, p: float, key: tuple[int, ...], origin: tuple[int, ...], shape: tuple[int, ...]
) -> torch.Tensor:
    """Zero a share `p` of the elements and divide the others by 1 − p.

    An element's lot is drawn from `key` and its index in the whole tensor, so each rank draws for its elements what any
    other would: SplitMix64 at that index (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

    Parameters
    ----------
    key
        Seed, operator, layer and step.
    origin
        Global index, per dim, of this shard's first element.
    shape
        Global shape; the first size is not used.
    """
    stream = 0
    for part in key:
        stream = _mixed(stream + (part + 1) * _GOLDEN)
    index = torch.zeros((), dtype=torch.int64, device=x.device)
    for first, here, size in zip(origin, x.shape, shape, strict=True):
        index = index.unsqueeze(-1) * size + torch.arange(first, first + here, device=x.device)
    # Products of 64-bit integers wrap around, as they should.
    z = index * _signed(_GOLDEN) + _signed(stream)
    for shift, factor in _ROUNDS:
        z = (z ^ _shifted(z, shift)) * _signed(factor)
    lot = _shifted(z ^ _shifted(z, 31), 32)
    return x.masked_fill(lot < round(p * 2**32), 0) * (1 / (1 - p))


def _mixed(z: int) -> int:
    """Return SplitMix64's hash of a Python integer."""
    z %= 2**64
    for shift, factor in _ROUNDS:
        z = (z ^ z >> shift) * factor % 2**64
    return z ^ z >> 31


def _shifted(z: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right without the sign."""
    return z >> by & (1 << 64 - by) - 1


def _signed(number: int) -> int:
    """Return the 64-bit integer, with a sign, that has the same bits."""
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number
