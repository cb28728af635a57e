"""The wire format of protocol buffers, field by field, without copying and within a budget.

```text
message = field*      field = key value      key = number·8 + kind      kind 0 varint | 1 eight bytes | 2 length, bytes
                                                                             | 5 four bytes
```

A value is an integer, or the span of its bytes; the reader decides by the field's number what the bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...errors import ModelError

Span = tuple[int, int]
MAX_FIELDS = 4_000_000
"""Fields of a file that are looked at."""
MAX_KEPT = 4_000_000
"""Elements of all constants whose values are kept."""
_INT64 = 1 << 63


class Wire:
    """A file in wire format.

    Parameters
    ----------
    data
        The bytes; a mapped file will do.
    name
        What to call the file in messages.
    """

    def __init__(self, data: memoryview, name: str) -> None:
        self.data, self.name, self.left, self.room = data, name, MAX_FIELDS, MAX_KEPT

    @property
    def whole(self) -> Span:
        """The span of the file."""
        return 0, len(self.data)

    def keep(self, count: int) -> bool:
        """Say whether there is room for the elements of one more constant."""
        self.room -= count
        return self.room >= 0

    def broken(self, what: str) -> ModelError:
        """Build the error for bytes that are no ONNX."""
        return ModelError(
            "model.onnx-broken", f"{self.name} is no ONNX file: {what}.", "Export the model again.", subject=self.name
        )

    def fields(self, span: Span) -> Iterator[tuple[int, int | Span]]:
        """Yield number and value of each field of a message."""
        at, stop = span
        while at < stop:
            self.left -= 1
            if self.left < 0:
                raise ModelError(
                    "model.too-large", f"{self.name} has more than {MAX_FIELDS:,} fields.",
                    "Give a model with fewer operators.", subject=self.name,
                )  # fmt: skip
            key, at = self._varint(at, stop)
            number, kind = key >> 3, key & 7
            if kind == 0:
                value, at = self._varint(at, stop)
                yield number, value
                continue
            if kind == 2:
                size, at = self._varint(at, stop)
            elif kind in {1, 5}:
                size = 8 if kind == 1 else 4
            else:
                raise self.broken(f"a field is of kind {kind} at byte {at}")
            if size > stop - at:
                raise self.broken(f"a field of {size} bytes does not fit at byte {at}")
            yield number, (at, at + size)
            at += size

    def span(self, value: int | Span) -> Span:
        """Return a value that has bytes."""
        if isinstance(value, int):
            raise self.broken("a number stands for bytes")
        return value

    def text(self, value: int | Span, longest: int = 20_000) -> str:
        """Return a value that is text."""
        start, stop = self.span(value)
        if stop - start > longest:
            raise self.broken(f"a text has {stop - start} bytes")
        try:
            return bytes(self.data[start:stop]).decode("utf-8")
        except UnicodeDecodeError:
            raise self.broken(f"a text is no UTF-8 at byte {start}") from None

    def integer(self, value: int | Span) -> int:
        """Return a value that is a signed integer of 64 bits."""
        if not isinstance(value, int):
            raise self.broken("bytes stand for a number")
        return value - 2 * _INT64 if value >= _INT64 else value

    def integers(self, value: int | Span, most: int) -> list[int]:
        """Return the integers of a field, one or many packed ones."""
        if isinstance(value, int):
            return [self.integer(value)]
        at, stop = value
        found: list[int] = []
        while at < stop:
            number, at = self._varint(at, stop)
            found.append(self.integer(number))
            if len(found) > most:
                raise self.broken(f"a list has more than {most} numbers")
        return found

    def floats(self, value: int | Span, width: int, most: int) -> list[float]:
        """Return the floating numbers of a field, one or many packed ones, each of `width` bytes."""
        start, stop = self.span(value)
        count = (stop - start) // width
        if (stop - start) % width or count > most:
            raise self.broken(f"a list of numbers has {stop - start} bytes")
        return list(struct.unpack(f"<{count}{'f' if width == 4 else 'd'}", self.data[start:stop]))

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            if at >= stop or shift > 63:
                raise self.broken(f"a number does not end at byte {at}")
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & ((1 << 64) - 1), at
            shift += 7
