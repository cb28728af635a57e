"""One's own `nn.Module` with example inputs → its program; it runs code, so only on its owner's machine.

The loss is the output that is called `loss`, is chosen, or is the only scalar; or it is taken of an output.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from ...errors import ModelError
from ..aten.loss import give_loss
from ..aten.program import Program
from ..example import Example
from .buffers import SmallValues, to_meta
from .causes import module_failed
from .trace import WithLoss, trace

Examples = torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor]


def trace_module(
    module: torch.nn.Module, inputs: Examples, name: str, *, symbols: Mapping[str, Sequence[str]] | None = None,
    output: str = "", loss: str = "", values: Mapping[str, torch.Tensor] | None = None,
) -> Program:  # fmt: skip
    """Return the program of a module.

    Parameters
    ----------
    module
        On whatever device; it is traced as it is, in training or evaluation, and not changed.
    inputs
        A tensor, tensors in order, or tensors by the names of the parameters of `forward`. Their values do not matter.
    name
        Of the model.
    symbols
        For each input the symbol of each dim, `""` for a fixed one. By default the first dim is `B` where all inputs
        agree on its size, and the others are fixed.
    output, loss
        Which output is the loss, by key, attribute or position, or which one a loss is taken of, and which; found out
        if they are empty.
    values
        What buffers hold, by path, where the module itself lies on the meta device.

    Raises
    ------
    ModelError
        `model.inputs-wrong`, or what `trace` and `give_loss` raise.
    """
    given = {"": inputs} if isinstance(inputs, torch.Tensor) else inputs
    keyword = isinstance(given, Mapping) and "" not in given
    tensors = list(given.values()) if isinstance(given, Mapping) else list(given)
    names = list(given) if isinstance(given, Mapping) and keyword else _parameter_names(module, len(tensors))
    if not tensors or not all(isinstance(each, torch.Tensor) for each in tensors):
        raise ModelError(
            "model.inputs-wrong", f"{name} is traced on example tensors, and these are given: {_kinds(tensors)}.",
            "Give a tensor for each input.", subject=name,
        )  # fmt: skip
    named = dict(zip(names, tensors, strict=True))

    keys: list[str] = []

    def run(inner: torch.nn.Module, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = dict(_outputs("", inner(**dict(zip(names, args, strict=True))) if keyword else inner(*args)))
        keys[:] = made
        return tuple(made.values())

    program = trace(WithLoss(module, run), named, _dims(named, symbols, name), name, values=values)
    places = {key: str(place) for place, key in enumerate(keys)}
    said = output or next((key for key in keys if key.rpartition(".")[2] == "loss"), "")
    logits = next((program.outputs[place] for place, key in enumerate(keys) if key.rpartition(".")[2] == "logits"), "")
    return give_loss(replace(program, logits=logits), output=places.get(said, said), loss=loss)


def trace_code(
    factory: Any, examples: Sequence[Example], name: str, *, output: str = "", loss: str = "", real: bool = False
) -> Program:
    """Return the program of the module that a function of the user makes.

    Parameters
    ----------
    factory
        An `nn.Module`, its class, or a function without arguments that returns one.
    examples
        Its inputs; all of them have names, or none.
    output, loss
        As for `trace_module`.
    real
        Make its parameters with their values, instead of their shapes alone on the meta device.

    Raises
    ------
    ModelError
        `model.module-failed` when the function raises, `model.module-missing` when it makes no module.
    """
    module = _made(factory, name, real)
    on_meta = not real and module is not factory
    device = "meta" if on_meta else next((p.device for p in module.parameters()), torch.device("cpu"))
    values = to_meta(module) if on_meta else None
    names = [one.name for one in examples]
    keyword = all(names)
    if not keyword:
        names = _parameter_names(module, len(examples))
    tensors = [torch.zeros(one.sizes, dtype=getattr(torch, one.dtype), device=device) for one in examples]
    symbols = {key: one.symbols for key, one in zip(names, examples, strict=True)}
    return trace_module(
        module, dict(zip(names, tensors, strict=True)) if keyword else tensors, name,
        symbols=symbols if any(any(row) for row in symbols.values()) else None, output=output, loss=loss, values=values,
    )  # fmt: skip


def _made(factory: Any, name: str, real: bool) -> torch.nn.Module:
    made = factory
    try:
        if not isinstance(factory, torch.nn.Module):
            with nullcontext() if real else SmallValues():
                made = factory()
    except Exception as problem:
        raise module_failed(problem, name, real) from problem
    if not isinstance(made, torch.nn.Module):
        raise ModelError(
            "model.module-missing", f"{name} gives a {type(made).__name__}, not a torch.nn.Module.",
            "Name a module, its class, or a function without arguments that returns one.", subject=name,
        )  # fmt: skip
    return made


def _outputs(path: str, made: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor that a model returns, by key, attribute or position."""
    if isinstance(made, torch.Tensor):
        yield path, made
    elif isinstance(made, Mapping):
        for key, value in made.items():
            yield from _outputs(f"{path}.{key}" if path else str(key), value)
    elif isinstance(made, tuple) and hasattr(made, "_fields"):
        for key in made._fields:
            yield from _outputs(f"{path}.{key}" if path else key, getattr(made, key))
    elif isinstance(made, tuple | list):
        for index, value in enumerate(made):
            yield from _outputs(f"{path}.{index}" if path else str(index), value)
    elif made is not None and hasattr(made, "__dict__"):
        for key, value in vars(made).items():
            yield from _outputs(f"{path}.{key}" if path else key, value)


def _parameter_names(module: torch.nn.Module, count: int) -> list[str]:
    """Return the names of the first parameters of `forward`."""
    found = [
        parameter.name for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]  # fmt: skip
    return [found[i] if i < len(found) else f"input_{i}" for i in range(count)]


def _dims(
    inputs: Mapping[str, torch.Tensor], symbols: Mapping[str, Sequence[str]] | None, name: str
) -> dict[str, tuple[str, ...]]:
    if symbols is None:
        first = {tensor.shape[0] if tensor.dim() else 0 for tensor in inputs.values()}
        open_dim = "B" if len(first) == 1 and first != {0} else ""
        return {key: (open_dim, *("",) * (tensor.dim() - 1)) for key, tensor in inputs.items()}
    for key, row in symbols.items():
        if key not in inputs or len(row) != inputs[key].dim():
            raise ModelError(
                "model.inputs-wrong", f"The symbols {list(row)} of {key} fit no input of {name}.",
                f"Inputs are {', '.join(f'{k} {list(v.shape)}' for k, v in inputs.items())}.", subject=key,
            )  # fmt: skip
    return {key: tuple(symbols.get(key, ("",) * tensor.dim())) for key, tensor in inputs.items()}


def _kinds(values: Sequence[object]) -> str:
    return ", ".join(type(value).__name__ for value in values) or "none"
