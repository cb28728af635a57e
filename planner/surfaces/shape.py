"""Shapes as people type them: `4096x4096`, `4096 × 4096` or `4096, 4096`."""

from __future__ import annotations

import re

from ..errors import LayoutError, Place


def read_shape(text: str) -> tuple[int, ...]:
    """Return the sizes of a text; what has no dims is written as nothing.

    Raises
    ------
    LayoutError
        `surface.shape-syntax`.

    Examples
    --------
    >>> read_shape("8x2048, 4096")
    (8, 2048, 4096)
    """
    sizes = []
    for match in re.finditer(r"[^x×,]*(?:[x×,]|$)", text):
        part = match[0].rstrip("x×,").strip()
        if match[0] == "" and match.start() and text[match.start() - 1] not in "x×,":
            break
        if not re.fullmatch(r"[1-9][0-9]{0,14}", part):
            start = match.start() + len(match[0]) - len(match[0].lstrip()) if part else match.start()
            raise LayoutError(
                "surface.shape-syntax", f"{text!r} is not a shape.", "Write sizes of at least 1, e.g. 4096x4096.",
                subject=text, place=Place(text, start, start + max(1, len(part))),
            )  # fmt: skip
        sizes.append(int(part))
    return tuple(sizes)
