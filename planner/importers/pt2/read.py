"""A `.pt2` archive → `Program`: signature, symbols, modules; the calls are read by `calls`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO

from ...core.json_text import JsonBounds, parse
from ...core.tensor import TensorMeta
from ...errors import ModelError
from ..aten.program import Buffer, Input, Member, Program, Weight
from ..config_fields import shown
from ..entries import Entry
from .archive import Archive, broken, open_archive
from .arguments import Scope
from .calls import CallReader, check_path
from .expression import symbol_of
from .held import Held, read_held
from .numbers import SCALAR_TYPES

BOUNDS = JsonBounds(
    error=ModelError, prefix="model", max_bytes=48 << 20, max_depth=64, max_values=2_500_000, max_digits=19
)
SCHEMA = 8
"""Version of the schema that is read; its minor version, 20 with torch 2.13, only adds."""
_HELD = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
_UNBOUND = 1 << 40


def read_program(file: BinaryIO, name: str) -> Program:
    """Return the program of an archive.

    Parameters
    ----------
    file
        The archive, open for reading; weights in it are not read.
    name
        Of the program, and of the file in messages.

    Raises
    ------
    ModelError
        `model.archive-…` for what is no archive, another schema or another form, for a graph with a cycle, for a size
        that is no polynomial of batch and sequence, and for what no plan holds; `model.json-…` and `model.too-large`.
    """
    archive = open_archive(file, name)
    model = _model(archive, name)
    data = archive.read(f"models/{model}.json", BOUNDS.max_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise broken(name, f"its graph is no UTF-8 text (byte {problem.start})") from None
    whole = Entry(parse(text, name, BOUNDS), "", name, "archive")
    _check_version(whole)
    return _Reader(whole, read_held(archive, model, name), name).program()


def _model(archive: Archive, name: str) -> str:
    """Return the name of the one model in an archive."""
    members = archive.members
    if "data.pkl" in members or "constants.pkl" in members or "serialized_exported_program.json" in members:
        kind = "an archive of an old version" if "data.pkl" not in members else "a pickled checkpoint (.pt)"
        raise ModelError(
            "model.archive-kind", f"{name} is {kind}, which is not opened: pickles run code when they are read.",
            "Give the file that torch.export.save of torch 2.13 writes, or the model's config.json.", subject=name,
        )  # fmt: skip
    models = [path.removeprefix("models/").removesuffix(".json") for path in members
              if path.startswith("models/") and path.endswith(".json")]  # fmt: skip
    if len(models) != 1 or archive.members.get("archive_format") is None:
        what = "no archive_format" if len(models) == 1 else f"{len(models)} models"
        raise ModelError(
            "model.archive-kind", f"{name} has {what}, so it is no archive of one program.",
            "Give the file that torch.export.save writes.", subject=name,
        )  # fmt: skip
    if archive.read("archive_format", 100) != b"pt2":
        raise broken(name, "its format is not pt2")
    return models[0]


def _check_version(whole: Entry) -> None:
    version = whole.at("schema_version")
    major, minor = version.at("major").integer(0, 1000), version.at("minor").integer(0, 100_000)
    if major != SCHEMA:
        version.refuse(
            f"is {major}.{minor}; version {SCHEMA} is read", "Export the model with torch 2.13.",
            code="model.archive-version",
        )  # fmt: skip


class _Reader:
    def __init__(self, whole: Entry, held: Held, name: str) -> None:
        self.whole, self.held, self.name = whole, held, name
        module = whole.at("graph_module")
        self.graph, self.signature = module.at("graph"), module.at("signature")
        self.modules_called = module.value.get("module_call_graph") if isinstance(module.value, dict) else None
        self.tensors = self.graph.at("tensor_values")
        self.symbols: dict[str, str] = {}
        self.fixed: list[str] = []
        self.scope = Scope(self.symbols, {}, {})

    def program(self) -> Program:
        specs = self.signature.at("input_specs").items()
        self._name_symbols(specs)
        calls = CallReader(self.symbols, self._compute(specs))
        inputs, weights, buffers = [], [], []
        first = {path: value for kind, value, path in map(_spec, specs) if kind == "parameter"}
        for spec in specs:
            kind, value, path = _spec(spec)
            if kind == "":
                continue
            if kind == "parameter" and self.held.shared.get(path) in first:
                # Every use of a shared weight reads the first one.
                self.scope.values[value] = first[self.held.shared[path]]
                continue
            meta = calls.meta(self.tensors.at(value), self.scope)
            if value in calls.names:
                spec.refuse(f"names {shown(value)} again", "Give every input its own name.", code="model.archive-order")
            calls.names.add(value)
            calls.metas[value] = meta
            self.scope.values[value] = value
            if kind == "user_input":
                inputs.append(Input(name=value, meta=meta))
            elif kind == "parameter":
                weights.append(self._weight(value, path, meta))
            else:
                values = self.held.values.get(path)
                buffers.append(Buffer(name=value, path=path, meta=meta, values=values))
        self._say_fixed(inputs)
        calls.graph(self.graph, self.scope)
        paths = [weight.path for weight in weights] + [buffer.path for buffer in buffers]
        return Program(
            name=self.name, inputs=tuple(inputs), weights=tuple(weights), buffers=tuple(buffers),
            calls=tuple(calls.calls), outputs=self._outputs(), modules=self._modules(calls.classes, paths),
            tied=tuple(self.held.shared.items()), fixed=tuple(self.fixed),
        )  # fmt: skip

    def _weight(self, value: str, path: str, meta: TensorMeta) -> Weight:
        return Weight(
            name=value, path=path, meta=meta, trainable=self.tensors.at(value).at("requires_grad").value is True
        )

    def _name_symbols(self, specs: Iterable[Entry]) -> None:
        """Call the open size of an input's first dim B, and one of its other dims S."""
        for spec in specs:
            kind, value, _ = _spec(spec)
            if kind != "user_input":
                continue
            for dim, size in enumerate(self.tensors.at(value).at("sizes").items()):
                text = size.at("as_expr").at("expr_str").text(4000) if "as_expr" in _dict(size) else ""
                symbol = symbol_of(text)
                if symbol is None or symbol in self.symbols:
                    continue
                name = "B" if dim == 0 else "S"
                if name in self.symbols.values():
                    size.refuse(
                        f"is open besides the {'batch' if dim == 0 else 'sequence'} of other inputs",
                        "Export the model with one Dim for all batches, one for all sequences, and the rest fixed.",
                        code="model.archive-size",
                    )  # fmt: skip
                self.symbols[symbol] = name

    def _say_fixed(self, inputs: Iterable[Input]) -> None:
        if "B" not in self.symbols.values():
            told = ", ".join(f"{one.name} is {one.meta}" for one in inputs)
            self.fixed.append(f"The file fixes the batch: {told}.")
        ranges = _dict(self.whole.at("range_constraints"))
        for symbol, name in self.symbols.items():
            most = _dict(self.whole.at("range_constraints").at(symbol)).get("max_val") if symbol in ranges else None
            if isinstance(most, int) and 0 < most < _UNBOUND:
                self.fixed.append(f"The model takes {name} up to {most}.")

    def _compute(self, specs: Iterable[Entry]) -> str:
        """Return the element type of the first parameter."""
        for spec in specs:
            kind, value, _ = _spec(spec)
            if kind == "parameter":
                number = self.tensors.at(value).at("dtype").value
                return SCALAR_TYPES.get(number, "") if isinstance(number, int) else ""
        return "float32"

    def _outputs(self) -> tuple[str, ...]:
        outputs = []
        for spec in self.signature.at("output_specs").items():
            kind = next(iter(_dict(spec)), "")
            if kind.startswith("gradient_to"):
                spec.refuse(
                    "is a gradient, so the program has its backward in it", "Export the forward alone.",
                    code="model.archive-unsupported",
                )  # fmt: skip
            if kind not in {"user_output", "loss_output"}:
                continue
            argument = spec.at(kind).at("arg")
            name = argument.at("as_tensor") if "as_tensor" in _dict(argument) else argument
            if "name" in _dict(name):
                outputs.append(self.scope.ref(name).name)
        return tuple(outputs)

    def _modules(self, classes: Mapping[str, str], held: Iterable[str]) -> tuple[Member, ...]:
        """Return all modules, parents before children: those that the file lists, in order, then those that it names.

        A file knows the class of a module only if something runs in it: lists are known by the numbers of their
        children.
        """
        calls = self.whole.at("graph_module").at("module_call_graph").items() if self.modules_called is not None else []
        listed = [call.at("fqn").text().split("@")[0] for call in calls]
        found: dict[str, None] = {"": None}
        for path in listed:
            check_path(path, self.whole.at("graph_module"))
        for path in (*listed, *classes, *(path.rpartition(".")[0] for path in held)):
            parts = path.split(".") if path else []
            for length in range(1, len(parts) + 1):
                found[".".join(parts[:length])] = None
        numbered = {path.rpartition(".")[0] for path in found if path.rpartition(".")[2].isdigit()}
        return tuple(
            (path, classes.get(path, "ModuleList" if path in numbered and path else "Module")) for path in found
        )


def _dict(entry: Entry) -> Mapping[str, object]:
    return entry.value if isinstance(entry.value, dict) else {}


def _spec(spec: Entry) -> tuple[str, str, str]:
    """Return kind, name in the graph and path of an input; an empty kind for one that is no tensor."""
    kind = next(iter(_dict(spec)), "")
    if kind == "user_input":
        argument = spec.at(kind).at("arg")
        if "as_tensor" in _dict(argument):
            return kind, argument.at("as_tensor").at("name").text(), ""
        # What is no tensor has become a constant of the graph.
        return "", "", ""
    if kind == "constant_input":
        return "", "", ""
    if kind not in _HELD:
        spec.refuse(f"is a {shown(kind)}", "Export the model without it.", code="model.archive-unsupported")
    inner = spec.at(kind)
    path = inner.at(_HELD[kind])
    check_path(path.text(), path)
    return kind, inner.at("arg").at("name").text(), path.text()
