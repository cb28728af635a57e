"""Break statements that are too long for a line at their brackets, one argument a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

_OPEN, _CLOSE = "([{", ")]}"


def assignment(targets: Sequence[str], value: str, width: int) -> list[str]:
    """Return the lines of `targets = value`."""
    if not targets:
        return wrapped(value, width)
    left = ", ".join(targets)
    if len(targets) == 1 or len(left) <= width * 2 // 3:
        return wrapped(f"{left} = {value}", width)
    return ["(", *(f"    {target}," for target in targets), *wrapped(f") = {value}", width)]


def wrapped(line: str, width: int) -> list[str]:
    """Return the lines of a statement without comment; only what fits in no other way is longer than `width`."""
    indent = line[: len(line) - len(line.lstrip())]
    place = _last_bracket(line) if len(line) > width else None
    if place is None:
        return _terms(line) if len(line) > width else [line]
    start, stop = place
    parts = [part.strip() for part in _split(line[start + 1 : stop])]
    inner = [f"{indent}    {part}," for part in parts if part]
    if len(line[: start + 1]) > width and len(parts) == 1:
        return [line]
    return [line[: start + 1], *(short for part in inner for short in wrapped(part, width)), indent + line[stop:]]


def _last_bracket(line: str) -> tuple[int, int] | None:
    """Return where the bracket that ends the line, or all but a comma or colon of it, opens and closes."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for position, character in _code(line):
        if character in _OPEN:
            opened.append(position)
        elif character in _CLOSE and opened:
            pairs.append((opened.pop(), position))
    stop = len(line.rstrip(",:")) - 1
    found = [pair for pair in pairs if pair[1] == stop and line[pair[0] + 1 : stop].strip()]
    return found[0] if found and not _is_index(line, found[0][0]) else None


def _is_index(line: str, start: int) -> bool:
    """Return whether a bracket is an index, which is not broken."""
    return line[start] == "[" and start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_)]")


def _terms(line: str) -> list[str]:
    """Return the lines of an assignment of a sum, one term a line; of anything else, the line."""
    target, equals, value = line.partition(" = ")
    places = [i for i in _outside(value) if value[i : i + 3] in {" + ", " - "}]
    if not equals or not places or any(bracket in target for bracket in _OPEN):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    parts = [value[start:stop].strip() for start, stop in pairwise([0, *places, len(value)])]
    return [f"{target} = (", *(f"{indent}    {part}" for part in parts), f"{indent})"]


def _outside(text: str) -> Iterator[int]:
    """Yield the positions that are in no bracket and no string."""
    depth = 0
    for position, character in _code(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth == 0:
            yield position


def _split(text: str) -> Iterator[str]:
    """Yield the parts between the commas that are in no bracket."""
    depth, start = 0, 0
    for position, character in _code(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside of strings, with their positions."""
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            yield position, character
