"""An ONNX file → `Program`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...core.symbol import Size, symbol
from ...core.tensor import DTYPE_BYTES, TensorMeta
from ...errors import ModelError
from ..aten.dtypes import FLOATING
from ..aten.program import Input, Member, Program, Ref
from .elements import ELEMENTS, Row
from .known import known_result, known_tensor
from .model import OnnxModel, OnnxValue, read_model, unsupported
from .products import PRODUCTS
from .site import Site, Translation
from .tensors import TENSORS
from .wire import Wire

ROWS: Mapping[str, Row] = MappingProxyType({**ELEMENTS, **PRODUCTS, **TENSORS})
"""ONNX operator → what calls it becomes."""


def read_program(data: memoryview, name: str) -> Program:
    """Return the program of a file.

    Parameters
    ----------
    data
        The file's bytes, of which only those of small constants are read besides the graph.
    name
        Of the program, and of the file in messages.

    Raises
    ------
    ModelError
        `model.onnx-broken` for what is no ONNX, `model.onnx-external` for tensors in other files,
        `model.onnx-operator` for what can't be planned, `model.onnx-order` for a value that nothing before makes,
        `model.onnx-input` for inputs with more open sizes than a batch and a sequence, `model.too-large`.
    """
    model = read_model(Wire(data, name))
    tensors = {tensor.name: tensor for tensor in model.tensors}
    compute = next((t.dtype for t in model.tensors if t.dtype in FLOATING and len(t.dims) > 0), "float32")
    work = Translation(file=name, compute=compute, tensors=tensors)
    for tensor in model.tensors:
        known = known_tensor(tensor)
        if known is not None:
            work.known[tensor.name] = known
    inputs, fixed = _inputs(model, work)
    kept = frozenset(one.name for one in model.outputs)
    readers = Counter(text for node in model.nodes for text in node.inputs)
    for node in model.nodes:
        _translate(Site(work, node, readers), kept)
    return Program(
        name=name, inputs=inputs, weights=tuple(work.weights), buffers=tuple(work.buffers), calls=tuple(work.calls),
        outputs=tuple(_output(work, one) for one in model.outputs), modules=_modules(model, work), fixed=fixed,
    )  # fmt: skip


def _output(work: Translation, value: OnnxValue) -> str:
    if value.name not in work.refs:
        raise _order(work.file, value.name)
    return work.refs[value.name].name


def _order(file: str, name: str) -> ModelError:
    return ModelError(
        "model.onnx-order", f"{file} reads {name[:80]!r}, which nothing before it makes.", "A graph has no cycles.",
        subject=name[:80],
    )  # fmt: skip


def _translate(at: Site, kept: frozenset[str]) -> None:
    node, work = at.node, at.all
    for text in node.inputs:
        if text and text not in work.refs and text not in work.known and text not in work.tensors:
            raise _order(work.file, text)
    for text in node.outputs:
        if text and (text in work.refs or text in work.known or text in work.tensors):
            at.refuse(f"which makes {text[:80]!r} again", "Give every value its own name.")
    known = known_result(at)
    if known is not None:
        work.known[node.outputs[0]] = known
        return
    if node.op == "Constant":
        return
    row = ROWS.get(node.op)
    if row is None:
        at.refuse("an operator without a row", f"Known are {', '.join(sorted(ROWS))}.")
    before = len(work.calls)
    made = (_biased(at, kept) if node.op == "Add" and len(node.inputs) == 2 else None) or row(at)
    refs = made if isinstance(made, list) else [made]
    first = work.rename(refs[0], node.outputs[0], before)
    refs = [first] + [Ref(f"{first.name}:{i}") if one.name == f"{refs[0].name}:{i}" else one
                      for i, one in enumerate(refs[1:], start=1)]  # fmt: skip
    for text, ref in zip(node.outputs, refs, strict=False):
        if text:
            work.refs[text] = ref


def _biased(at: Site, kept: frozenset[str]) -> Ref | None:
    """Write `linear(x, w) + b` as `linear(x, w, b)`, where nothing else reads the product; None if it is none."""
    work, names = at.all, at.node.inputs
    for product, bias in ((0, 1), (1, 0)):
        ref = work.refs.get(names[product])
        index = None if ref is None else work.places.get(ref.name)
        if ref is None or index is None or at.readers[names[product]] > 1 or names[product] in kept:
            continue
        call = work.calls[index]
        linear = call.target == "aten.linear.default" and len(call.arguments) == 2
        if linear and at.is_weight(bias) and at.shape(bias) == at.shape(ref)[-1:]:
            work.calls[index] = replace(call, arguments=(*call.arguments, at.ref(bias, "bias")))
            return ref
    return None


def _inputs(model: OnnxModel, work: Translation) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """Return the inputs, with B for the open size of a first dim and S for that of another."""
    names: dict[str, str] = {}
    inputs: list[Input] = []
    for value in model.inputs:
        if value.shape is None:
            raise _input(work.file, f"Input {value.name[:80]!r} has no shape")
        sizes = [_size(work.file, value, dim, size, names) for dim, size in enumerate(value.shape)]
        meta = TensorMeta(tuple(sizes), work.dtype(value.dtype))
        if meta.dtype not in {*DTYPE_BYTES, "compute"}:
            raise unsupported(work.file, f"has an input of {meta.dtype}", f"Use {', '.join(DTYPE_BYTES)}.")
        name = work.fresh(value.name)
        if value.name in work.refs:
            raise _input(work.file, f"Input {value.name[:80]!r} stands there twice")
        work.refs[value.name], work.metas[name] = Ref(name), meta
        inputs.append(Input(name=name, meta=meta))
    told = ", ".join(f"{one.name} is {one.meta}" for one in inputs)
    return tuple(inputs), () if "B" in names.values() else (f"The file fixes the batch: {told}.",)


def _size(file: str, value: OnnxValue, dim: int, size: int | str, names: dict[str, str]) -> Size:
    if isinstance(size, int) and size > 0:
        if size > 1 << 62:
            raise _input(file, f"Input {value.name[:80]!r} has the size {size}")
        return size
    if isinstance(size, int) and size < 0:
        raise _input(file, f"Input {value.name[:80]!r} has the size {size}")
    wanted = "B" if dim == 0 else "S"
    # A dim without a name is the batch or the sequence by its place.
    key = size if isinstance(size, str) and size else f" {wanted}"
    if key not in names:
        if wanted in names.values():
            raise _input(file, f"Dim {dim} of input {value.name[:80]!r} is open besides those of other inputs")
        names[key] = wanted
    return symbol(names[key])


def _input(file: str, what: str) -> ModelError:
    return ModelError(
        "model.onnx-input", f"{what} in {file}.",
        "Export the model with one name for all batches, one for all sequences, and the other sizes fixed.",
        subject=file,
    )  # fmt: skip


def _modules(model: OnnxModel, work: Translation) -> tuple[Member, ...]:
    """Return all modules, parents before children; lists are known by the numbers of their children."""
    classes = {"": model.root if model.root.isidentifier() and model.root.isascii() else "Model"}
    paths: list[str] = []
    for node in model.nodes:
        for path, kind in node.stack:
            classes.setdefault(path, kind)
            paths.append(path)
    paths += [weight.path.rpartition(".")[0] for weight in work.weights]
    found: dict[str, None] = {"": None}
    for path in dict.fromkeys(_prefixes(paths)):
        found[path] = None
    numbered = {path.rpartition(".")[0] for path in found if path.rpartition(".")[2].isdigit()}
    return tuple((path, classes.get(path, "ModuleList" if path in numbered else "Module")) for path in found)


def _prefixes(paths: Iterable[str]) -> Iterable[str]:
    for path in dict.fromkeys(paths):
        parts = path.split(".") if path else []
        for length in range(1, len(parts) + 1):
            yield ".".join(parts[:length])
