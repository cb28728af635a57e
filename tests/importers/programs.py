"""Runs programs by torch itself, call by call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from planner.core.symbol import Polynomial, evaluate
from planner.importers.aten.program import Argument, Program, Ref, Word


def run_program(
    program: Program, inputs: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor], **symbols: int
) -> list[torch.Tensor]:  # fmt: skip
    """Return the outputs, after checking that every result has the shape that the program says.

    Parameters
    ----------
    weights
        By path.
    """
    values: dict[str, torch.Tensor] = dict(inputs)
    values |= {one.name: weights[one.path] for one in program.weights}
    bound = frozenset(symbols.items())
    for one in program.buffers:
        dtype = weights_dtype(weights) if one.meta.dtype == "compute" else getattr(torch, one.meta.dtype)
        values[one.name] = torch.tensor(one.values, dtype=dtype).reshape(one.meta.concrete(bound))

    def concrete(argument: Argument) -> Any:
        if isinstance(argument, Ref):
            return values[argument.name]
        if isinstance(argument, tuple):
            return [concrete(part) for part in argument]
        if isinstance(argument, Polynomial):
            return evaluate(argument, bound)
        return getattr(torch, argument.text) if isinstance(argument, Word) else argument

    for call in program.calls:
        target: Any = torch.ops
        for part in call.target.split("."):
            target = getattr(target, part)
        made = target(*map(concrete, call.arguments), **{key: concrete(value) for key, value in call.keywords})
        made = made if isinstance(made, tuple | list) else (made,)
        for index, (meta, value) in enumerate(zip(call.results, made, strict=True)):
            assert tuple(value.shape) == meta.concrete(bound), (call, value.shape)
            values[call.result(index)] = value
    return [values[name] for name in program.outputs]


def weights_dtype(weights: Mapping[str, torch.Tensor]) -> torch.dtype:
    return next((one.dtype for one in weights.values() if one.is_floating_point()), torch.float32)
