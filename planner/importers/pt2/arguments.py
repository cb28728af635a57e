"""Arguments of a call as the file has them, `{"as_ints": [2, 8]}`, → those of a `Program`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ...core.symbol import Size
from ..aten.program import Argument, Ref, Word
from ..config_fields import shown
from ..entries import Entry
from .expression import read_size
from .numbers import LAYOUTS, MEMORY_FORMATS, SCALAR_TYPES

MAX_TEXT = 10_000
_INT64 = 1 << 63
_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf}


class Scope:
    """What the names of one graph stand for.

    Parameters
    ----------
    symbols
        Symbol of torch → symbol of ours.
    sizes
        Name of a computed size → its entry in the file; it is read when a call uses it.
    values
        Name of a tensor in the file → its name in the program; a name that is not in it was not made yet.
    """

    def __init__(self, symbols: Mapping[str, str], sizes: dict[str, Entry], values: dict[str, str]) -> None:
        self.symbols, self.sizes, self.values = symbols, sizes, values
        # Many tensors have the same few sizes.
        self._read: dict[str, Size | None] = {}

    def ref(self, entry: Entry) -> Ref:
        """Return the use of a tensor that was made before."""
        name = entry.at("name").text()
        if name not in self.values:
            entry.refuse(
                f"reads {shown(name)}, which nothing before it makes", "A graph has no cycles.",
                code="model.archive-order",
            )  # fmt: skip
        return Ref(self.values[name])

    def size(self, entry: Entry) -> Size:
        """Return a size, `{"as_int": 8}` or `{"as_expr": …}`."""
        kind, value = _union(entry)
        if kind == "as_int":
            return value.integer(-_INT64, _INT64 - 1)
        if kind != "as_expr":
            entry.refuse(f"is {kind}, no size", "Give as_int or as_expr.")
        text = value.at("expr_str").text(MAX_TEXT)
        if text not in self._read:
            self._read[text] = read_size(text, self.symbols)
        size = self._read[text]
        if size is None:
            value.refuse(
                f"is {text[:80]}, which is no polynomial of {' and '.join(self.symbols) or 'sizes'}",
                "Export the model with fixed sizes there.", code="model.archive-size",
            )  # fmt: skip
        return size

    def named_size(self, entry: Entry) -> Size:
        """Return a size that another call computed, `{"as_name": …}`, or a number."""
        kind, value = _union(entry)
        if kind != "as_name":
            return self.size(entry)
        name = value.text()
        if name not in self.sizes:
            entry.refuse(f"reads the size {shown(name)}, which nothing computes", "Export again.")
        return self.size(self.sizes[name])


def read_argument(entry: Entry, scope: Scope) -> Argument:
    """Return one argument."""
    kind, value = _union(entry)
    if kind == "as_none":
        return None
    reader = _READERS.get(kind)
    if reader is None:
        entry.refuse(
            f"is of the kind {shown(kind)}, which no operator of a plan takes", "Export the model without it.",
            code="model.archive-unsupported",
        )  # fmt: skip
    return reader(value, scope)


def _union(entry: Entry) -> tuple[str, Entry]:
    """Return key and value of an object with one key."""
    if not isinstance(entry.value, dict) or len(entry.value) != 1:
        entry.refuse(f"is {shown(entry.value)}, not an object of one kind", "Export again.")
    (key,) = entry.value
    return key, entry.at(key)


def _integer(entry: Entry, _: Scope) -> int:
    return entry.integer(-_INT64, _INT64 - 1)


def _float(entry: Entry, _: Scope) -> float:
    if isinstance(entry.value, str) and entry.value in _FLOATS:
        return _FLOATS[entry.value]
    return float(entry.number())


def _truth(entry: Entry, _: Scope) -> bool:
    if not isinstance(entry.value, bool):
        entry.refuse(f"is {shown(entry.value)}", "Give true or false.")
    return entry.value


def _text(entry: Entry, _: Scope) -> str:
    return entry.text(MAX_TEXT)


def _word(table: Mapping[int, str]) -> Callable[[Entry, Scope], Word]:
    def read(entry: Entry, _: Scope) -> Word:
        number = entry.value
        if not isinstance(number, int) or number not in table:
            entry.refuse(f"is {shown(number)}, which is not known", f"Known are {', '.join(table.values())}.")
        return Word(table[number])

    return read


def _device(entry: Entry, _: Scope) -> Word:
    kind = entry.at("type").name()
    index = entry.value.get("index") if isinstance(entry.value, dict) else None
    return Word(kind if index is None else f"{kind}:{entry.at('index').integer(0, 1 << 16)}")


def _optional(entry: Entry, scope: Scope) -> Argument:
    kind, value = _union(entry)
    return None if kind == "as_none" else scope.ref(value)


def _each(read: Callable[[Entry, Scope], Argument]) -> Callable[[Entry, Scope], Argument]:
    return lambda entry, scope: tuple(read(item, scope) for item in entry.items())


def _ref(entry: Entry, scope: Scope) -> Argument:
    return scope.ref(entry)


def _size(entry: Entry, scope: Scope) -> Argument:
    return scope.named_size(entry)


def _either(kind_of_number: str, read: Callable[[Entry, Scope], Argument]) -> Callable[[Entry, Scope], Argument]:
    """Return a reader of a number that may be one that another call computed; those are refused."""

    def value(entry: Entry, scope: Scope) -> Argument:
        kind, inner = _union(entry)
        if kind == kind_of_number:
            return read(inner, scope)
        entry.refuse(
            "is a number that the model computes of its sizes", "Export the model with fixed sizes.",
            code="model.archive-unsupported",
        )  # fmt: skip

    return value


_READERS: Mapping[str, Callable[[Entry, Scope], Argument]] = MappingProxyType({
    "as_tensor": _ref, "as_tensors": _each(_ref), "as_nested_tensors": _each(_each(_ref)),
    "as_optional_tensor": _optional, "as_optional_tensors": _each(_optional),
    "as_int": _integer, "as_ints": _each(_integer), "as_int_lists": _each(_each(_integer)),
    "as_float": _float, "as_floats": _each(_float), "as_float_lists": _each(_each(_float)),
    "as_bool": _truth, "as_bools": _each(_truth), "as_string": _text, "as_strings": _each(_text),
    "as_sym_int": _size, "as_sym_ints": _each(_size),
    "as_sym_float": _either("as_float", _float), "as_sym_floats": _each(_either("as_float", _float)),
    "as_sym_bool": _either("as_bool", _truth), "as_sym_bools": _each(_either("as_bool", _truth)),
    "as_scalar_type": _word(SCALAR_TYPES), "as_layout": _word(LAYOUTS), "as_memory_format": _word(MEMORY_FORMATS),
    "as_device": _device,
})  # fmt: skip
