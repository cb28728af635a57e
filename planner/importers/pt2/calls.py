"""The nodes of a graph in a file → the calls of a `Program`; regions without gradients are written in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...core.tensor import DTYPE_BYTES, TensorMeta
from ..aten.dtypes import WIDENED
from ..aten.program import Argument, Call, Member, Ref
from ..config_fields import shown
from ..entries import MAX_NAME, Entry
from .arguments import Scope, read_argument
from .numbers import SCALAR_TYPES

MAX_CALLS = 200_000
_TARGET = re.compile(r"\w+(\.\w+){1,3}", re.ASCII)
_PATH = re.compile(r"[\w\-]+(\.[\w\-]+)*", re.ASCII)
_NAME = re.compile(r"\w+", re.ASCII)
_CLASS = re.compile(r"[^\W\d]\w*", re.ASCII)
_NO_GRADIENT = "higher_order.wrap_with_set_grad_enabled"
_AUTOCAST = "higher_order.wrap_with_autocast"


class CallReader:
    """Reads the calls of a graph and of the graphs in it.

    Parameters
    ----------
    compute
        Element type that stands for the plan's.
    """

    def __init__(self, symbols: Mapping[str, str], compute: str) -> None:
        self.symbols, self.compute = symbols, compute
        self.calls: list[Call] = []
        self.names: set[str] = set()
        self.classes: dict[str, str] = {}
        self.metas: dict[str, TensorMeta] = {}

    def meta(self, entry: Entry, scope: Scope) -> TensorMeta:
        """Return shape and element type of a tensor."""
        kind = entry.at("dtype")
        dtype = SCALAR_TYPES.get(kind.value) if isinstance(kind.value, int) else None
        if dtype is None:
            kind.refuse(f"is {shown(kind.value)}, no element type", "Export again.")
        name = "compute" if dtype == self.compute else WIDENED.get(dtype, dtype)
        if name != "compute" and name not in DTYPE_BYTES:
            kind.refuse(
                f"is {name}, which no plan computes in",
                f"Use {', '.join(DTYPE_BYTES)}.",
                code="model.archive-unsupported",
            )
        sizes = []
        for item in entry.at("sizes").items():
            size = scope.size(item)
            if isinstance(size, int) and size < 0:
                item.refuse(f"is the size {size}", "Give sizes of at least 0.", code="model.archive-size")
            sizes.append(size)
        return TensorMeta(tuple(sizes), name)

    def graph(self, entry: Entry, scope: Scope, prefix: str = "") -> None:
        """Add the calls of a graph.

        Parameters
        ----------
        prefix
            What the names of calls start with, for a graph within another.
        """
        scope.sizes |= {key: entry.at("sym_int_values").at(key) for key in _keys(entry.at("sym_int_values"))}
        tensors = entry.at("tensor_values")
        for node in entry.at("nodes").items():
            target = node.at("target").text().removeprefix("torch.ops.")
            if target in (_NO_GRADIENT, _AUTOCAST):
                self._region(node, target, scope, prefix)
            elif "higher_order" in target:
                node.refuse(
                    f"calls {target.rpartition('.')[2]}, which runs one of several graphs or one of them many times",
                    "Export the model with the branch or the number of steps fixed.", code="model.archive-unsupported",
                )  # fmt: skip
            else:
                self._call(node, target, scope, tensors, prefix)

    def _call(self, node: Entry, target: str, scope: Scope, tensors: Entry, prefix: str) -> None:
        outputs = [name for output in node.at("outputs").items() for name in _made(output)]
        if not any(name for name in outputs):
            # Asserts, and sizes that are computed of sizes: those stand in the file by their values.
            return
        if not _TARGET.fullmatch(target):
            node.at("target").refuse(f"is {shown(target)}, no operator", "Export again.")
        own = node.value.get("name") if isinstance(node.value, dict) else None
        name = prefix + (node.at("name").text() if own is not None else next(filter(None, outputs)))
        self._named(node, name)
        positional: list[Argument] = []
        keywords: list[tuple[str, Argument]] = []
        for item in node.at("inputs").items():
            argument = read_argument(item.at("arg"), scope)
            if isinstance(item.value, dict) and item.value.get("kind") == 2:
                keywords.append((item.at("name").name(), argument))
            else:
                positional.append(argument)
        results = [self.meta(tensors.at(output), scope) for output in outputs if output]
        self.calls.append(
            Call(
                name=name, target=target, arguments=tuple(positional), keywords=tuple(sorted(keywords, key=_first)),
                results=tuple(results), stack=self._stack(node), source=_source(node),
            )
        )  # fmt: skip
        for index, output in enumerate(filter(None, outputs)):
            self._define(node, output, self.calls[-1].result(index), results[index], scope)

    def _region(self, node: Entry, target: str, scope: Scope, prefix: str) -> None:
        """Add the calls of a graph that runs without gradients, or without autocast, in the place of its call."""
        inputs = [item.at("arg") for item in node.at("inputs").items()]
        at = next((i for i, item in enumerate(inputs) if isinstance(item.value, dict) and "as_graph" in item.value), -1)
        if at < (1 if target == _NO_GRADIENT else 3):
            node.refuse("runs no graph", "Export again.")
        enabled = inputs[0 if target == _NO_GRADIENT else 2].at("as_bool").value
        if target == _AUTOCAST and enabled is not False:
            node.refuse(
                "runs under autocast", "Export without it: the plan's precision says what is computed in.",
                code="model.archive-unsupported",
            )  # fmt: skip
        graph = inputs[at].at("as_graph").at("graph")
        inner = Scope(self.symbols, dict(scope.sizes), {})
        parameters = graph.at("inputs").items()
        if len(parameters) != len(inputs) - at - 1:
            node.refuse(f"gives {len(inputs) - at - 1} values to {len(parameters)} inputs", "Export again.")
        for parameter, given in zip(parameters, inputs[at + 1 :], strict=True):
            self._bind(parameter, given, inner, scope)
        start = f"{prefix}{inputs[at].at('as_graph').at('name').name()}_{len(self.calls)}_"
        before = len(self.calls)
        self.graph(graph, inner, start)
        outer = [name for output in node.at("outputs").items() for name in _made(output)]
        made = [name for output in graph.at("outputs").items() for name in _made(output)]
        if len(outer) != len(made):
            node.refuse(f"takes {len(outer)} results of a graph with {len(made)}", "Export again.")
        stops = target == _NO_GRADIENT and enabled is False and any(_tensors(item) for item in inputs[at + 1 :])
        for output, value in zip(outer, made, strict=True):
            if not output or value not in inner.values:
                continue
            name = inner.values[value]
            meta = self.metas[name]
            if stops:
                stop = f"{start}{value}_stop"
                self._named(node, stop)
                stack = self.calls[-1].stack if len(self.calls) > before else ()
                self.calls.append(
                    Call(name=stop, target="aten.detach.default", arguments=(Ref(name),), results=(meta,), stack=stack)
                )
                name = stop
            self._define(node, output, name, meta, scope)

    def _bind(self, parameter: Entry, given: Entry, inner: Scope, outer: Scope) -> None:
        if isinstance(parameter.value, dict) and "as_tensor" in parameter.value:
            argument = read_argument(given, outer)
            if not isinstance(argument, Ref):
                given.refuse("is no tensor", "Export again.")
            inner.values[parameter.at("as_tensor").at("name").text()] = argument.name
        elif isinstance(parameter.value, dict) and "as_sym_int" in parameter.value:
            name = parameter.at("as_sym_int").at("as_name").text()
            if isinstance(given.value, dict) and "as_sym_int" in given.value:
                source = given.at("as_sym_int")
                known = source.value.get("as_name") if isinstance(source.value, dict) else None
                inner.sizes[name] = outer.sizes.get(known, source) if isinstance(known, str) else source
            else:
                inner.sizes[name] = given
        else:
            parameter.refuse("is no tensor and no size", "Export again.", code="model.archive-unsupported")

    def _named(self, node: Entry, name: str) -> None:
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            node.refuse(f"is called {shown(name)}", "Write names with letters, digits and _.")
        if name in self.names:
            node.refuse(f"makes {name!r} again", "Give every call its own name.", code="model.archive-order")
        self.names.add(name)
        if len(self.names) > MAX_CALLS:
            node.refuse(f"is one of more than {MAX_CALLS:,} calls", "Give a smaller model.", code="model.too-large")

    def _define(self, node: Entry, output: str, name: str, meta: TensorMeta, scope: Scope) -> None:
        if output in scope.values:
            node.refuse(f"makes {shown(output)} again", "Give every value its own name.", code="model.archive-order")
        scope.values[output] = name
        self.metas[name] = meta

    def _stack(self, node: Entry) -> tuple[Member, ...]:
        """Read the modules around a call, `key,path,class;…`; classes of all modules are kept on the way."""
        members: list[Member] = []
        for item in _metadata(node, "nn_module_stack").split(";"):
            parts = item.split(",")
            if len(parts) < 3 or parts[0].startswith("_empty"):
                continue
            path, kind = ",".join(parts[1:-1]).split("@")[0], parts[-1].rpartition(".")[2]
            kind = kind if _CLASS.fullmatch(kind) else "Module"
            check_path(path, node)
            self.classes.setdefault(path, kind)
            if path:
                members.append((path, kind))
        return tuple(members)


def check_path(path: str, entry: Entry) -> None:
    """Refuse a module path that no name of a graph can hold."""
    if path and (len(path) > MAX_NAME or not _PATH.fullmatch(path)):
        entry.refuse(f"is of the module {shown(path)}", "Name modules with letters, digits, _ and -.")


def _first(pair: tuple[str, Argument]) -> str:
    return pair[0]


def _keys(entry: Entry) -> tuple[str, ...]:
    return tuple(entry.value) if isinstance(entry.value, dict) else ()


def _made(output: Entry) -> list[str]:
    """Return the names of the tensors of one output; empty ones for what is no tensor."""
    if not isinstance(output.value, dict) or len(output.value) != 1:
        output.refuse(f"is {shown(output.value)}, no output", "Export again.")
    (kind,) = output.value
    if kind == "as_tensor":
        return [output.at(kind).at("name").text()]
    if kind == "as_tensors":
        return [item.at("name").text() for item in output.at(kind).items()]
    return [""]


def _tensors(entry: Entry) -> bool:
    return isinstance(entry.value, dict) and any(kind.startswith(("as_tensor", "as_optional")) for kind in entry.value)


def _metadata(node: Entry, key: str) -> str:
    metadata = node.value.get("metadata") if isinstance(node.value, dict) else None
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _source(node: Entry) -> str:
    """Return the innermost line of the code that made a call."""
    lines = re.findall(r'File "([^"\n]{1,400})", line (\d{1,9})', _metadata(node, "stack_trace")[:100_000])
    name = lines[-1][0].replace("\\", "/").rpartition("/")[2] if lines else ""
    return f"{name}:{lines[-1][1]}" if name.isprintable() and lines else ""
