"""JSON that a stranger wrote, read strictly and within bounds; and the canonical text to digest.

Accepted is what RFC 8259 calls JSON, in at most `max_bytes` bytes and `max_depth` levels, with
finite numbers, whole characters, and no key twice in an object. Everything else is one error that
says where.

Invariant: `canonical(parse(canonical(value))) == canonical(value)`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from hashlib import sha256

from ..errors import PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBounds:
    """What a reader of JSON accepts, and how it complains.

    Parameters
    ----------
    error, prefix
        Error class to raise, and what its codes start with, e.g. `model`.
    max_bytes, max_depth
        Bounds on the UTF-8 text and on nesting.
    max_values
        Bound on commas and opening brackets, so on the number of values; 0 for none. A value takes up to a hundred
        times the memory of its text.
    max_digits
        Digits of the longest integer.
    """

    error: type[PlannerError]
    prefix: str
    max_bytes: int
    max_depth: int
    max_values: int = 0
    max_digits: int = 18

    def fail(self, code: str, message: str, hint: str) -> PlannerError:
        """Build the error with this reader's class and prefix."""
        return self.error(f"{self.prefix}.{code}", message, hint)


def parse(text: str, what: str, bounds: JsonBounds) -> object:
    """Return the value that `text` holds.

    Parameters
    ----------
    text
        JSON text.
    what
        What it is, for the messages, e.g. a file name.

    Raises
    ------
    PlannerError
        Of the class in `bounds`, with code `….too-large`, `….json-syntax`, `….json-number`,
        `….json-key`, `….json-character` or `….json-depth`.
    """
    raw = text.encode("utf-8", "surrogatepass")
    check_size(len(raw), what, bounds)
    if bounds.max_values and (count := sum(map(text.count, ",[{"))) > bounds.max_values:
        raise bounds.fail(
            "too-large",
            f"{what} has {count:,} values; at most {bounds.max_values:,} are read.",
            "Give a smaller file.",
        )

    def number(literal: str) -> float:
        if not math.isfinite(value := float(literal)):
            raise bounds.fail(
                "json-number",
                f"{what} holds {_short(literal)}, which is no finite number.",
                "Write a number that a float64 can hold.",
            )
        return value

    def integer(literal: str) -> int:
        # Longer ones are refused before int() gets slow; no size or count comes near.
        if len(literal.lstrip("-")) > bounds.max_digits:
            raise bounds.fail(
                "json-number",
                f"{what} holds an integer of {len(literal)} digits.",
                f"Write integers of at most {bounds.max_digits} digits.",
            )
        return int(literal)

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise bounds.fail(
                "json-key",
                f"{what} gives the key {_short(twice)!r} twice in one object.",
                "Keep one of the two.",
            )
        return found

    try:
        value: object = json.loads(
            text,
            parse_float=number,
            parse_int=integer,
            parse_constant=number,
            object_pairs_hook=members,
        )
    except json.JSONDecodeError as problem:
        raise bounds.fail(
            "json-syntax",
            f"{what} is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}.",
            "Mend the text there.",
        ) from None
    except RecursionError:
        raise _too_deep(what, bounds) from None
    # Raw halves are three bytes that start with 0xed.
    _check(value, what, bounds, escapes="\\u" in text or b"\xed" in raw)
    return value


def check_size(count: int, what: str, bounds: JsonBounds) -> None:
    """Raise `….too-large` if a text of `count` bytes is over the bound."""
    if count > bounds.max_bytes:
        raise bounds.fail(
            "too-large",
            f"{what} has {count:,} bytes; at most {bounds.max_bytes:,} are read.",
            "Give a smaller file.",
        )


def canonical(value: object) -> str:
    """Return the one text of a JSON value: keys sorted, no spaces, every number finite."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text as hexadecimal digits."""
    return sha256(text.encode()).hexdigest()


def _check(value: object, what: str, bounds: JsonBounds, escapes: bool) -> None:
    """Refuse deep nesting, and halves of surrogate pairs, which only texts with escapes can hold."""
    level = [value] if isinstance(value, dict | list) else []
    texts: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > bounds.max_depth:
            raise _too_deep(what, bounds)
        below = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
        if escapes:
            texts += [key for item in level if isinstance(item, dict) for key in item]
            texts += below
        level = [part for part in below if isinstance(part, dict | list)]
    for text in texts if escapes else ():
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise bounds.fail(
                "json-character",
                f"{what} holds half of a surrogate pair in {_short(text)!a}.",
                "Write the whole character.",
            )


def _too_deep(what: str, bounds: JsonBounds) -> PlannerError:
    return bounds.fail("json-depth", f"{what} nests more than {bounds.max_depth} levels deep.", "Flatten it.")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
