"""Access to the values of a JSON file that knows where in it they are, so that every complaint names the place.

A place is written like `root.body[3].attributes.eps`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from ..core.symbol import positive
from ..core.tensor import DTYPE_BYTES, TensorMeta
from ..errors import ModelError, PlannerError
from .config_fields import shown

MAX_NAME = 500
"""Characters of a name."""
# Names end up in exported code, in files and on the page: nothing in them may end a string or a line.
_NAME = re.compile(r"[\w.*/:+\-]+", re.ASCII)
_CLASS = re.compile(r"[^\W\d][\w.]*", re.ASCII)
_MAX_ELEMENTS = 1 << 62


class Entry:
    """A value of the file with its place in it.

    Parameters
    ----------
    kind
        What the file is, for the codes of its errors: `model.graph-schema`, `model.archive-schema`.
    """

    __slots__ = ("file", "kind", "place", "value")

    def __init__(self, value: object, place: str, file: str, kind: str) -> None:
        self.value, self.place, self.file, self.kind = value, place, file, kind

    def refuse(self, what: str, hint: str, code: str = "") -> NoReturn:
        """Raise the error that says what is wrong at this place."""
        raise ModelError(
            code if code else f"model.{self.kind}-schema", f"{self.file}: {self.place or 'the file'} {what}.", hint,
            subject=self.place,
        )  # fmt: skip

    def members(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Entry]:
        """Return the entries of an object with these keys and no others."""
        if not isinstance(self.value, dict):
            self.refuse(f"is {shown(self.value)}, not an object", f"Give {', '.join(required)}.")
        for key in required:
            if key not in self.value:
                self.refuse(f"lacks {key!r}", f"Give {', '.join(required)}.")
        for key in self.value:
            if key not in required and key not in optional:
                self.refuse(f"has the unknown key {shown(key)}", f"Known are {', '.join((*required, *optional))}.")
        return {key: self.at(key) for key in self.value}

    def at(self, key: str) -> Entry:
        """Return an entry of an object, whatever else it has."""
        if not isinstance(self.value, dict):
            self.refuse(f"is {shown(self.value)}, not an object", f"Give {key}.")
        if key not in self.value:
            self.refuse(f"lacks {key!r}", f"Give {key}.")
        return Entry(self.value[key], f"{self.place}.{key}" if self.place else key, self.file, self.kind)

    def items(self) -> list[Entry]:
        """Return the entries of a list."""
        if not isinstance(self.value, list):
            self.refuse(f"is {shown(self.value)}, not a list", "Give a list.")
        return [Entry(value, f"{self.place}[{i}]", self.file, self.kind) for i, value in enumerate(self.value)]

    def tuple_of(self, count: int, what: str) -> list[Entry]:
        """Return the entries of a list that has `count` of them."""
        entries = self.items()
        if len(entries) != count:
            self.refuse(f"has {len(entries)} entries", f"Give {what}.")
        return entries

    def text(self, longest: int = MAX_NAME) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self.refuse(f"is {shown(self.value)}, not a string", "Give a string.")
        if len(self.value) > longest:
            self.refuse(f"has {len(self.value):,} characters", f"Give at most {longest:,}.")
        return self.value

    def sentence(self) -> str:
        """Return one line of text."""
        text = self.text()
        if not text.isprintable() or not text.strip():
            self.refuse("is no line of text", "Write one line.")
        return text

    def number(self) -> float:
        """Return a number."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self.refuse(f"is {shown(self.value)}", "Give a number.")
        return self.value

    def name(self, empty: bool = False) -> str:
        """Return the name of an operator, a value, a parameter or a module."""
        text = self.text()
        if not _NAME.fullmatch(text) and not (empty and not text):
            self.refuse(f"is {shown(text)}, no name", "Write names with letters, digits and . _ * / : + - alone.")
        return text

    def class_name(self) -> str:
        """Return the name of a class."""
        text = self.text()
        if not _CLASS.fullmatch(text):
            self.refuse(f"is {shown(text)}, no name of a class", "Write letters, digits and underscores.")
        return text

    def integer(self, least: int, most: int) -> int:
        """Return an integer in a range."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            self.refuse(f"is {shown(self.value)}", f"Give an integer of {least} … {most:,}.")
        return self.value

    def meta(self) -> TensorMeta:
        """Return a shape with its element type; every size is positive whatever the batch and the sequence are."""
        text = self.text()
        try:
            meta = TensorMeta.parse(text)
        except PlannerError as problem:
            self.refuse(f"is {shown(text)}: {problem.diagnostic.message}", problem.diagnostic.hint)
        self.check_shape(meta)
        return meta

    def check_shape(self, meta: TensorMeta) -> None:
        """Refuse a shape that no tensor has."""
        if meta.dtype not in {*DTYPE_BYTES, "compute"}:
            self.refuse(f"has the element type {shown(meta.dtype)}", f"Use {', '.join(DTYPE_BYTES)} or compute.")
        elements = 1
        for size in meta.shape:
            if not positive(size):
                self.refuse(
                    f"has the size {size} in {meta}", "Give positive sizes of integers and the symbols B and S.",
                    code="model.graph-size",
                )  # fmt: skip
            elements *= size if isinstance(size, int) else sum(count for _, count in size.terms)
        if elements > _MAX_ELEMENTS:
            self.refuse(
                f"is a tensor of {meta}, with more elements than 2^62", "Give smaller sizes.", code="model.graph-size"
            )
