"""An ONNX file as values: operators with attributes and modules, tensors without their elements, inputs and outputs.

Field numbers are those of the published `onnx.proto`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from ...errors import ModelError
from ..aten.dtypes import FLOATING
from ..aten.program import Member
from .wire import Span, Wire

MAX_NODES = 200_000
MAX_ELEMENTS = 1 << 16
"""Elements of the largest constant whose values are kept."""
MAX_RANK = 32
DTYPES: Mapping[int, str] = MappingProxyType({
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
    16: "bfloat16",
})  # fmt: skip
_NUMPY = {"float32": "<f4", "uint8": "u1", "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "bool": "?",
          "float16": "<f2", "float64": "<f8"}  # fmt: skip
_WORD = re.compile(r"'([^'\\]{0,400})'")
Plain = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxTensor:
    """A constant of a file.

    Parameters
    ----------
    values
        Its elements in row-major order; None where there are many, and for weights.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    values: tuple[float, ...] | tuple[int, ...] | tuple[bool, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxValue:
    """An input or output; a dim is an integer or a name, and the shape None where the file does not say it."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxNode:
    """An operator; `stack` are the modules around it, as far as the file says them."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Plain | OnnxTensor]
    stack: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """A file; `opset` is the version of the operators."""

    opset: int
    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]
    tensors: tuple[OnnxTensor, ...]
    nodes: tuple[OnnxNode, ...]
    root: str


def read_model(wire: Wire) -> OnnxModel:
    """Return what a file holds.

    Raises
    ------
    ModelError
        `model.onnx-broken`, `model.onnx-external` for data outside of the file, `model.too-large`,
        `model.onnx-operator` for functions of a model's own.
    """
    opset, graph = 0, None
    for number, value in wire.fields(wire.whole):
        if number == 7:
            graph = wire.span(value)
        elif number == 8:
            domain, version = "", 0
            for inner, part in wire.fields(wire.span(value)):
                domain = wire.text(part) if inner == 1 else domain
                version = wire.integer(part) if inner == 2 else version
            opset = version if domain in {"", "ai.onnx"} else opset
        elif number == 25:
            raise unsupported(wire.name, "has functions of its own", "Export it with them inlined.")
    if graph is None or not opset:
        raise wire.broken("it has no graph" if graph is None else "it names no version of the operators")
    if opset < 13:
        raise unsupported(wire.name, f"uses version {opset} of the operators", "Export it with opset 13 or later.")
    return _graph(wire, graph, opset)


def unsupported(name: str, what: str, hint: str) -> ModelError:
    """Build the error for what can't be planned."""
    return ModelError("model.onnx-operator", f"{name} {what}, which can't be planned.", hint, subject=name)


def _graph(wire: Wire, span: Span, opset: int) -> OnnxModel:
    nodes: list[OnnxNode] = []
    tensors: list[OnnxTensor] = []
    inputs: list[OnnxValue] = []
    outputs: list[OnnxValue] = []
    roots: list[str] = []
    for number, value in wire.fields(span):
        if number == 1:
            nodes.append(_node(wire, wire.span(value), roots))
        elif number == 5:
            tensors.append(_tensor(wire, wire.span(value)))
        elif number in {11, 12}:
            (inputs if number == 11 else outputs).append(_value(wire, wire.span(value)))
        elif number == 15:
            raise unsupported(wire.name, "has sparse weights", "Export it with dense ones.")
        if len(nodes) > MAX_NODES or len(tensors) > MAX_NODES:
            raise ModelError(
                "model.too-large", f"{wire.name} has more than {MAX_NODES:,} operators or weights.",
                "Give a smaller model.", subject=wire.name,
            )  # fmt: skip
    held = {tensor.name for tensor in tensors}
    return OnnxModel(
        opset=opset, inputs=tuple(one for one in inputs if one.name not in held), outputs=tuple(outputs),
        tensors=tuple(tensors), nodes=tuple(nodes), root=roots[0] if roots else "Model",
    )  # fmt: skip


def _node(wire: Wire, span: Span, roots: list[str]) -> OnnxNode:
    inputs: list[str] = []
    outputs: list[str] = []
    texts = {3: "", 4: "", 7: ""}
    attributes: dict[str, Plain | OnnxTensor] = {}
    notes: dict[str, str] = {}
    for number, value in wire.fields(span):
        if number in {1, 2}:
            (inputs if number == 1 else outputs).append(wire.text(value))
        elif number in texts:
            texts[number] = wire.text(value)
        elif number == 5:
            name, attribute = _attribute(wire, wire.span(value))
            attributes[name] = attribute
        elif number == 9:
            key, note = _pair(wire, wire.span(value))
            notes[key] = note
    op = texts[4] if texts[7] in {"", "ai.onnx"} else f"{texts[7]}.{texts[4]}"
    return OnnxNode(
        name=texts[3], op=op, inputs=tuple(inputs), outputs=tuple(outputs), attributes=MappingProxyType(attributes),
        stack=_stack(notes, texts[3], roots),
    )  # fmt: skip


def _pair(wire: Wire, span: Span) -> tuple[str, str]:
    key = value = ""
    for number, part in wire.fields(span):
        if number == 1:
            key = wire.text(part)
        # Long notes, such as the text of a call, are not read.
        elif number == 2 and key.endswith(("name_scopes", "class_hierarchy")):
            value = wire.text(part)
    return key, value


def _stack(notes: Mapping[str, str], name: str, roots: list[str]) -> tuple[Member, ...]:
    """Return the modules around an operator, by the notes of torch's exporter or by a name like `/layers.0/up/MatMul`.

    The last of the scopes is the operator itself.
    """
    scopes = _WORD.findall(notes.get("pkg.torch.onnx.name_scopes", ""))
    classes = _WORD.findall(notes.get("pkg.torch.onnx.class_hierarchy", ""))
    if scopes and len(scopes) == len(classes):
        members = [(path, kind.rpartition(".")[2]) for path, kind in zip(scopes[:-1], classes[:-1], strict=True)]
        roots += [kind for path, kind in members if not path and kind.isidentifier()][: 1 - len(roots)]
        return tuple((path, kind if kind.isidentifier() else "Module") for path, kind in members
                     if _is_path(path) and not path.startswith("_empty"))  # fmt: skip
    parts = name.split("/")[1:-1] if name.startswith("/") else []
    path, found = "", []
    for part in parts:
        # The exporter writes a list of layers and its index as one part, `layers.0`, and repeats a called path.
        if not _is_path(part):
            return ()
        path = f"{path}.{part}" if path else part
        found.append((path, "Module"))
    return tuple(found)


def _is_path(path: str) -> bool:
    return bool(re.fullmatch(r"[\w\-]+(\.[\w\-]+)*", path, re.ASCII)) and len(path) <= 400


def _attribute(wire: Wire, span: Span) -> tuple[str, Plain | OnnxTensor]:
    name, kind = "", 0
    single: Plain | OnnxTensor | None = None
    many: dict[int, list[int] | list[float] | list[str]] = {}
    for number, value in wire.fields(span):
        if number == 1:
            name = wire.text(value, 400)
        elif number == 20:
            kind = wire.integer(value)
        elif number in _SINGLE:
            single = _SINGLE[number](wire, value)
        elif number in _MANY:
            many.setdefault(number, []).extend(_MANY[number](wire, value))  # type: ignore[arg-type]
        elif number in {6, 11}:
            raise unsupported(wire.name, f"has a graph in the attribute {name[:40]!r}", "Export it without branches.")
    for values in many.values():
        return name, tuple(values)  # type: ignore[return-value]
    # Some writers leave zeros out, and the kind says what is meant.
    if single is not None:
        return name, single
    return name, 0.0 if kind == 1 else 0 if kind == 2 else "" if kind == 3 else ()


def _tensor(wire: Wire, span: Span) -> OnnxTensor:
    dims: list[int] = []
    kind, name, raw = 0, "", None
    lists: dict[int, list[Span | int]] = {}
    for number, value in wire.fields(span):
        if number == 1:
            dims += wire.integers(value, MAX_RANK)
        elif number == 2:
            kind = wire.integer(value)
        elif number == 8:
            name = wire.text(value)
        elif number == 9:
            raw = wire.span(value)
        elif number in {4, 5, 7, 10}:
            lists.setdefault(number, []).append(value)
        elif number == 13 or (number == 14 and value != 0):
            raise ModelError(
                "model.onnx-external", f"{wire.name} keeps tensors in other files, which are not opened.",
                "Save it as one file, without weights if it is large.", subject=wire.name,
            )  # fmt: skip
    if kind not in DTYPES:
        raise unsupported(wire.name, f"has a tensor of the element type {kind}", f"Use {', '.join(DTYPES.values())}.")
    if any(size < 0 for size in dims) or len(dims) > MAX_RANK or prod(dims) > 1 << 62:
        raise wire.broken(f"a tensor has the dims {dims[:8]}")
    dtype = DTYPES[kind]
    count = prod(dims)
    # Of weights nobody needs the elements; a few floating numbers may be scales.
    wanted = count <= (8 if dtype in FLOATING else MAX_ELEMENTS) and wire.keep(count)
    values = _values(wire, dtype, count, raw, lists) if wanted else None
    return OnnxTensor(name=name, dtype=dtype, dims=tuple(dims), values=values)


def _values(
    wire: Wire, dtype: str, count: int, raw: Span | None, lists: Mapping[int, Iterable[Span | int]]
) -> tuple[float, ...] | tuple[int, ...] | tuple[bool, ...] | None:
    found: list[float] | list[int] = []
    if raw is not None:
        data = wire.data[raw[0] : raw[1]]
        if dtype == "bfloat16":
            if len(data) == 2 * count:
                upper = np.frombuffer(data, dtype="<u2").astype(np.uint32) << np.uint32(16)
                return tuple(upper.view(np.float32).tolist())
        elif len(data) == np.dtype(_NUMPY[dtype]).itemsize * count:
            return tuple(np.frombuffer(data, dtype=_NUMPY[dtype]).tolist())
        raise wire.broken(f"a tensor of {count} elements has {len(data)} bytes")
    for number, values in lists.items():
        for value in values:
            if number == 4:
                found += wire.floats(value, 4, MAX_ELEMENTS)
            elif number == 10:
                found += wire.floats(value, 8, MAX_ELEMENTS)
            elif dtype in {"float16", "bfloat16"}:
                # Written as the bits of the number; nobody needs them.
                return None
            else:
                found += wire.integers(value, MAX_ELEMENTS)
    if len(found) != count:
        # Some exporters leave the elements of weights out.
        return None
    return tuple(bool(v) for v in found) if dtype == "bool" else tuple(found)


def _value(wire: Wire, span: Span) -> OnnxValue:
    name, dtype, shape = "", "", None
    for number, value in wire.fields(span):
        if number == 1:
            name = wire.text(value)
        elif number == 2:
            for kind, inner in wire.fields(wire.span(value)):
                if kind == 1:
                    dtype, shape = _type(wire, wire.span(inner))
    if not dtype:
        raise unsupported(wire.name, f"has {name[:60]!r}, which is no tensor", "Export it with tensors alone.")
    return OnnxValue(name=name, dtype=dtype, shape=shape)


def _type(wire: Wire, span: Span) -> tuple[str, tuple[int | str, ...] | None]:
    dtype, shape = "", None
    for number, value in wire.fields(span):
        if number == 1:
            dtype = DTYPES.get(wire.integer(value), "")
        elif number == 2:
            sizes: list[int | str] = []
            for _, dim in wire.fields(wire.span(value)):
                size: int | str = ""
                for kind, part in wire.fields(wire.span(dim)):
                    if kind == 1:
                        size = wire.integer(part)
                    elif kind == 2:
                        size = wire.text(part, 400)
                sizes.append(size)
            shape = tuple(sizes[: MAX_RANK + 1])
    return dtype, shape


_SINGLE: Mapping[int, Callable[[Wire, Span | int], Plain | OnnxTensor]] = MappingProxyType({
    2: lambda wire, value: wire.floats(value, 4, 1)[0],
    3: lambda wire, value: wire.integer(value),
    4: lambda wire, value: wire.text(value),
    5: lambda wire, value: _tensor(wire, wire.span(value)),
})  # fmt: skip
"""Number of a field of an attribute that holds one thing → how to read it."""
_MANY: Mapping[int, Callable[[Wire, Span | int], list[int] | list[float] | list[str]]] = MappingProxyType({
    7: lambda wire, value: wire.floats(value, 4, MAX_ELEMENTS),
    8: lambda wire, value: wire.integers(value, MAX_ELEMENTS),
    9: lambda wire, value: [wire.text(value)],
})  # fmt: skip
