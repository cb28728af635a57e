"""Reads `.pt2` archives of `torch.export.save` with our own reader: nothing is unpickled, evaluated or loaded by torch.

Of the archive only JSON and the raw bytes of small constants are read; weights are not. Everything is bounded, and
whatever an archive holds, reading gives a `Program` or one `ModelError`. Written and tried with the archives of torch
2.13 (schema 8.20); others of schema 8 are read as far as they say what those say.
"""

from __future__ import annotations

from .read import read_program

__all__ = ["read_program"]
