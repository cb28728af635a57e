"""How targets are matched here: a function that `compose` hands over, since only `assign` knows their syntax."""

from __future__ import annotations

from collections.abc import Callable

Names = Callable[[str, str], tuple[int, int] | None]
"""Target and template → the iterations `start … stop-1` that it names; None for none."""
