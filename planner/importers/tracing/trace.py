"""`nn.Module` and example inputs → `Program`, by `torch.export` with `strict=False`.

Shapes of batch and sequence stay symbols where the model lets them; where it does not, they are fixed and the program
says so.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from io import StringIO
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, export

from ...core.symbol import Size, parse
from ...core.tensor import DTYPE_BYTES, TensorMeta
from ...errors import ModelError
from ..aten.program import Argument, Buffer, Call, Input, Member, Program, Ref, Weight, Word
from .buffers import HeldIndices
from .causes import told, tracing_failed
from .literals import Literals
from .regions import inline_regions

MAX_BUFFER = 1 << 18
"""Elements of the largest buffer whose values are kept."""
INNER = "inner"
"""Name that `WithLoss` gives the model that it wraps; it is taken off all paths."""


class WithLoss(torch.nn.Module):
    """A model and the loss of its logits, as one module.

    Parameters
    ----------
    run
        Takes the model and the inputs in order, and returns the loss and, if there are any, the logits.
    """

    def __init__(self, model: torch.nn.Module, run: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.inner = model
        self.run = run

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return what `run` does."""
        return self.run(self.inner, *inputs)


def trace(
    module: WithLoss, inputs: Mapping[str, torch.Tensor], dims: Mapping[str, Sequence[str]], name: str,
    *, values: Mapping[str, torch.Tensor] | None = None, compute: torch.dtype | None = None,
) -> Program:  # fmt: skip
    """Return the program of a model with its loss.

    Parameters
    ----------
    inputs
        Example tensors by name; on the meta device, they cost no memory.
    dims
        For each input the symbol of each dim, `""` for a dim that is fixed.
    name
        Of the model.
    values
        What buffers hold, by path, where the model itself lies on the meta device.
    compute
        Element type that stands for the plan's; by default that of the first parameter.

    Where a symbol can't stay open, it is fixed to the size of the example, and the program says so.

    Raises
    ------
    ModelError
        `model.trace-…` when torch can't export the module.
    """
    ordered = {key: tuple(dims[key]) for key in inputs}
    symbols = {symbol for row in ordered.values() for symbol in row if symbol}
    # What stays open, the widest choice first; fixing the sequence alone is what most models need that need anything.
    choices = [symbols, symbols - {"S"}, set[str]()]
    problem: Exception | None = None
    for place, opened in enumerate(choices):
        if place and opened == choices[place - 1]:
            continue
        try:
            kept = {key: tuple(symbol if symbol in opened else "" for symbol in row) for key, row in ordered.items()}
            program = _exported(module, inputs, kept, name, values or {}, compute)
        except Exception as found:
            problem = found
            continue
        why = "" if problem is None else _fixed(ordered, kept, inputs, problem)
        return replace(program, fixed=((why,) if why else ()) + program.fixed)
    assert problem is not None
    raise problem if isinstance(problem, ModelError) else tracing_failed(problem, name) from problem


def _exported(
    module: WithLoss, inputs: Mapping[str, torch.Tensor], dims: Mapping[str, Sequence[str]], name: str,
    values: Mapping[str, torch.Tensor], compute: torch.dtype | None,
) -> Program:  # fmt: skip
    shapes = tuple({i: Dim.AUTO for i, symbol in enumerate(dims[key]) if symbol} for key in inputs)
    with warnings.catch_warnings(), _silence(), Literals(), HeldIndices():
        # What torch and the model's code warn of is for those who run the model.
        warnings.simplefilter("ignore")
        exported = export(module, tuple(inputs.values()), dynamic_shapes={"inputs": shapes}, strict=False)
    return program_of(exported, module, dims, name, values=values, compute=compute)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep torch from writing whole graphs into the log and to stderr; what goes wrong is told by the error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _fixed(
    wanted: Mapping[str, Sequence[str]], kept: Mapping[str, Sequence[str]], inputs: Mapping[str, torch.Tensor],
    problem: Exception,
) -> str:  # fmt: skip
    """Return the sentence on symbols that are fixed."""
    sizes = {
        symbol: inputs[key].shape[i]
        for key, row in wanted.items() for i, symbol in enumerate(row) if symbol and not kept[key][i]
    }  # fmt: skip
    named = " and ".join(f"{symbol} to {size}" for symbol, size in sorted(sizes.items()))
    return f"The trace fixes {named}: {told(problem)}."


def program_of(
    exported: ExportedProgram, module: torch.nn.Module, dims: Mapping[str, Sequence[str]], name: str,
    *, values: Mapping[str, torch.Tensor], compute: torch.dtype | None = None,
) -> Program:  # fmt: skip
    """Return the program that an exported one is."""
    inline_regions(exported.graph_module)
    own = compute or next((p.dtype for p in module.parameters()), torch.float32)
    return _Reader(exported, module, dims, values, own).program(name)


class _Reader:
    def __init__(
        self, exported: ExportedProgram, module: torch.nn.Module, dims: Mapping[str, Sequence[str]],
        values: Mapping[str, torch.Tensor], compute: torch.dtype,
    ) -> None:  # fmt: skip
        self.exported, self.module, self.values, self.compute = exported, module, values, compute
        self.names: dict[str, str] = {}
        self.sizes: dict[str, Size] = {}
        self.aliases: dict[str, str] = {}
        self.fixed: list[str] = []
        signature = exported.graph_signature
        self.parameters = dict(signature.inputs_to_parameters)
        self.buffers = dict(signature.inputs_to_buffers) | dict(signature.inputs_to_lifted_tensor_constants)
        # torch names the inputs by position; they get the names that they were given.
        self.users = dict(zip(signature.user_inputs, dims, strict=True))
        self._symbols(dims)
        self._share()

    def _symbols(self, dims: Mapping[str, Sequence[str]]) -> None:
        """Name the symbols of torch after the dims of the inputs that they stand for."""
        held: dict[str, set[bool]] = {}
        for node in self.exported.graph.nodes:
            if node.op != "placeholder" or node.name not in self.users:
                continue
            name = self.users[node.name]
            self.aliases[node.name] = name
            for size, symbol in zip(node.meta["val"].shape, dims[name], strict=True):
                if not symbol:
                    continue
                held.setdefault(symbol, set()).add(isinstance(size, int))
                if isinstance(size, int):
                    self.fixed.append(f"The model fixes {symbol} of {name} to {size}.")
                elif not re.fullmatch(r"s\d+", str(size)) or self.names.setdefault(str(size), symbol) != symbol:
                    raise _unsized(f"{symbol} of {name} is not free: torch writes it as {size}")
        for symbol, fixed in held.items():
            if len(fixed) > 1:
                raise _unsized(f"{symbol} is free for some inputs and fixed for others")

    def _share(self) -> None:
        """Let every use of a shared parameter read the first one."""
        nodes = {path: name for name, path in self.parameters.items()}
        for path, first in self._pairs():
            if path in nodes and first in nodes:
                self.aliases[nodes[path]] = nodes[first]

    def size(self, value: Any) -> Size:
        """Return a size of torch as a polynomial."""
        if isinstance(value, int):
            return value
        text = re.sub(r"\bs\d+\b", lambda match: self.names.get(match[0], match[0]), str(value))
        try:
            found = parse(re.sub(r"-\s+", "+ -1*", text))
        except ModelError:
            found = None
        if found is None or re.search(r"\b[su]\d+\b", text):
            raise _unsized(f"a size of the model is {text}, which is no polynomial of its symbols")
        return found

    def meta(self, tensor: torch.Tensor) -> TensorMeta:
        return TensorMeta(tuple(self.size(s) for s in tensor.shape), _dtype(tensor.dtype, self.compute))

    def program(self, name: str) -> Program:
        inputs, weights, buffers, calls = [], [], [], []
        for node in self.exported.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                if node.name in self.parameters:
                    if node.name in self.aliases:
                        continue
                    path = self.parameters[node.name]
                    trainable = self.exported.state_dict[path].requires_grad
                    weights.append(Weight(name=node.name, path=_path(path), meta=self.meta(value), trainable=trainable))
                elif node.name in self.buffers:
                    buffers.append(self._buffer(node, value))
                elif isinstance(value, torch.Tensor):
                    inputs.append(Input(name=self.users[node.name], meta=self.meta(value)))
            elif node.op == "call_function":
                call = self._call(node, value)
                if call is not None:
                    calls.append(call)
        (output,) = (n for n in self.exported.graph.nodes if n.op == "output")
        user = [self._argument(a) for a in output.args[0]]
        own = [ref.name for ref in user[len(user) - len(self.exported.graph_signature.user_outputs) :]
               if isinstance(ref, Ref)]  # fmt: skip
        return Program(
            name=name, inputs=tuple(inputs), weights=tuple(weights), buffers=tuple(buffers), calls=tuple(calls),
            outputs=tuple(own), logits=own[1] if len(own) == 2 else "", modules=self._modules(), tied=self._tied(),
            fixed=tuple(self.fixed),
        )  # fmt: skip

    def _modules(self) -> tuple[Member, ...]:
        inner = self.module.get_submodule(INNER)
        return tuple((path, type(module).__name__) for path, module in inner.named_modules())

    def _tied(self) -> tuple[tuple[str, str], ...]:
        return tuple((_path(path), _path(first)) for path, first in self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        """Return the paths of each parameter that is shared, each with its first one."""
        first: dict[int, str] = {}
        pairs = []
        for path, parameter in self.module.named_parameters(remove_duplicate=False):
            if id(parameter) in first:
                pairs.append((path, first[id(parameter)]))
            first.setdefault(id(parameter), path)
        return pairs

    def _buffer(self, node: torch.fx.Node, value: torch.Tensor) -> Buffer:
        path = self.buffers[node.name]
        held = self.values.get(_path(path), self.exported.state_dict.get(path, self.exported.constants.get(path)))
        values: tuple[float, ...] | tuple[int, ...] | tuple[bool, ...] | None = None
        if value.numel() == 0:
            values = ()
        elif isinstance(held, torch.Tensor) and held.device.type == "cpu" and held.numel() <= MAX_BUFFER:
            values = tuple(held.detach().flatten().tolist())
        return Buffer(name=node.name, path=_path(path), meta=self.meta(value), values=values)

    def _call(self, node: torch.fx.Node, value: Any) -> Call | None:
        target = str(node.target)
        if isinstance(value, int | torch.SymInt | torch.SymFloat | torch.SymBool | float | bool):
            return None
        if "getitem" in target and not isinstance(node.target, torch._ops.OpOverload):
            source, index = node.args
            assert isinstance(source, torch.fx.Node)
            assert isinstance(index, int)
            self.aliases[node.name] = source.name if index == 0 else f"{source.name}:{index}"
            return None
        made = value if isinstance(value, tuple | list) else (value,)
        return Call(
            name=node.name, target=target, arguments=tuple(self._argument(a) for a in node.args),
            keywords=tuple(sorted((k, self._argument(v)) for k, v in node.kwargs.items())),
            results=tuple(self.meta(v) for v in made if isinstance(v, torch.Tensor)), stack=_stack(node),
            source=_source(node),
        )  # fmt: skip

    def _argument(self, value: Any) -> Argument:
        if isinstance(value, torch.fx.Node):
            held = value.meta.get("val")
            if isinstance(held, torch.SymInt):
                return self.size(held)
            if isinstance(held, int | float | bool):
                return held
            return Ref(self.aliases.get(value.name, value.name))
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple | list):
            return tuple(self._argument(v) for v in value)
        if isinstance(value, torch.SymInt):
            return self.size(value)
        return Word(str(value).removeprefix("torch."))


def _unsized(what: str) -> ModelError:
    return ModelError("model.trace-size", f"{what[0].upper()}{what[1:]}.", "Trace it with fixed sizes.")


def _path(path: str) -> str:
    """Return the path within the model that is wrapped."""
    return path.removeprefix(INNER).removeprefix(".")


def _dtype(dtype: torch.dtype, compute: torch.dtype) -> str:
    """Return the element type; the one that the model computes in is `compute`."""
    name = str(dtype).removeprefix("torch.")
    if dtype == compute:
        return "compute"
    if name not in DTYPE_BYTES:
        return {"uint8": "int32", "int8": "int32", "int16": "int32"}.get(name, name)
    return name


def _stack(node: torch.fx.Node) -> tuple[Member, ...]:
    members: list[Member] = []
    for path, kind in (node.meta.get("nn_module_stack") or {}).values():
        text = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        if path and not path.startswith("_empty"):
            members.append((_path(path.split("@")[0]), text.rpartition(".")[2]))
    return tuple(members)


def _source(node: torch.fx.Node) -> str:
    """Return the innermost line of the code that made a node."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{lines[-1][0].rpartition('/')[2]}:{lines[-1][1]}" if lines else ""
