"""Who watches an import: is told how far it is, and may stop it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What an import that takes long calls.

    Parameters
    ----------
    stage
        Called with the share that is done, from 0 to 1, and what comes next.
    stopped
        Whether the import is no longer wanted; asked several times a second.
    """

    stage: Callable[[float, str], None] = lambda done, text: None
    stopped: Callable[[], bool] = lambda: False


NOBODY = Watch()
