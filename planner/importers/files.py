"""Model files that hold a graph → `ModelGraph`: graph JSON, `.pt2` and ONNX, told apart by what is in them.

What is read from a file is the graph's own source, so that a plan file is complete without it. Nothing in a file is
run, and each reader keeps within its bounds (`docs/reference/model-files.md`).
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from io import BytesIO, UnsupportedOperation
from types import MappingProxyType
from typing import BinaryIO, Protocol

from ..core.graph import ModelGraph, ModelSource
from ..errors import ModelError, PlannerError
from .aten.loss import give_loss
from .aten.program import Program
from .graph_json import KIND, read_graph, with_source
from .graph_json.form import FORMAT

PT2, ONNX = "pt2", "onnx"
MAX_ONNX = 1 << 31
"""Bytes of the largest ONNX file; the format ends there."""
# What the rows of lowering raise on calls that no program of torch has.
_MISFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class FileReader(Protocol):
    """Reads a file that is open for reading; `name` is the graph's, `shown` is for messages."""

    def __call__(self, stream: BinaryIO, name: str, shown: str, *, output: str = "", loss: str = "") -> ModelGraph:
        """Return the graph."""
        ...


def kind_of(head: bytes, suffix: str) -> str:
    """Return the kind of a file by its first bytes; empty if it is none of `FILES`.

    Parameters
    ----------
    head
        As many bytes as are at hand; for graph JSON all.
    suffix
        Of the file's name. An ONNX file has no mark, but most begin with the version of the form, as no text does.
    """
    if head.startswith(b"PK"):
        return PT2
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return KIND if f'"{FORMAT}"'.encode() in text else ""
    return ONNX if suffix == ".onnx" or head.startswith(b"\x08") else ""


def _read_json(stream: BinaryIO, name: str, shown: str, *, output: str = "", loss: str = "") -> ModelGraph:
    if output or loss:
        raise ModelError(
            "model.loss-output", f"{shown} says itself what its loss is.", "Leave output and loss out.", subject=shown
        )
    try:
        text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ModelError(
            "model.file-unreadable", f"{shown} is no UTF-8 text (byte {problem.start}).", "Save it as UTF-8.",
            subject=shown,
        ) from None  # fmt: skip
    return read_graph(text, shown)


def _read_pt2(stream: BinaryIO, name: str, shown: str, *, output: str = "", loss: str = "") -> ModelGraph:
    # These readers, and what builds a graph, need numpy, which a list of models does not wait for.
    from .pt2 import read_program

    return _graph(read_program(stream, shown), PT2, name, output, loss)


def _read_onnx(stream: BinaryIO, name: str, shown: str, *, output: str = "", loss: str = "") -> ModelGraph:
    from .onnx import read_program

    try:
        # A file is mapped, so that its weights take no memory.
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (UnsupportedOperation, ValueError):
        return _graph(read_program(memoryview(stream.read(MAX_ONNX)), shown), ONNX, name, output, loss)
    # Closed when nothing refers to it any more: an error on its way may.
    return _graph(read_program(memoryview(data), shown), ONNX, name, output, loss)


FILES: Mapping[str, FileReader] = MappingProxyType({KIND: _read_json, PT2: _read_pt2, ONNX: _read_onnx})
"""Kind of file → its reader."""


def read_file(
    stream: BinaryIO | bytes, kind: str, name: str, shown: str, *, output: str = "", loss: str = ""
) -> ModelGraph:
    """Return the graph of a file of one of the kinds of `FILES`.

    Parameters
    ----------
    name
        Of the graph, unless the file has one.
    shown
        What to call the file in messages.
    output, loss
        What is trained, for a file that does not say it; see `aten.loss.give_loss`.

    Raises
    ------
    ModelError
        What the reader of the kind raises; `model.program-misfit` for calls with arguments that their operators do not
        take.
    """
    source = BytesIO(stream) if isinstance(stream, bytes) else stream
    return FILES[kind](source, name, shown, output=output, loss=loss)


class ReadStored(Protocol):
    """Content and name → graph."""

    def __call__(self, content: str, name: str, /) -> ModelGraph:
        """Return the graph."""
        ...


def stored(kind: str) -> ReadStored:
    """Return what reads a graph of a kind again from what a plan file holds of it."""
    return lambda content, name: read_graph(content, name, kind=kind)


def _graph(program: Program, kind: str, name: str, output: str, loss: str) -> ModelGraph:
    from .aten.build import build

    source = ModelSource(name=name, kind=kind, digest="", content="")
    try:
        graph = with_source(build(give_loss(program, output=output, loss=loss), source, name), kind)
        # Once more through the reader, which checks names, shapes and rules where they come from.
        return read_graph(graph.source.content, program.name, kind=kind)
    except ModelError:
        raise
    except (*_MISFIT, PlannerError) as problem:
        raise ModelError(
            "model.program-misfit",
            f"{program.name} has a call with arguments that its operator does not take "
            f"({type(problem).__name__}: {str(problem)[:200]}).",
            "Export the model again; if the file is from torch, report it.", subject=program.name,
        ) from None  # fmt: skip
