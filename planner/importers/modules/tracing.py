"""An architecture with its arguments → its module and example inputs, and → its program."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ..aten.program import Program
from ..tracing.trace import WithLoss, trace
from .source import ModuleSource

SAMPLES = 6
"""Samples of the example inputs; their number stays a symbol."""


def make_module(source: ModuleSource) -> nn.Module:
    """Return the module, in training mode, on torch's default device and in its default element type.

    Raises
    ------
    ModelError
        `model.module-arguments` when the arguments do not fit together.
    """
    architecture = source.architecture
    made = getattr(import_module(f".{architecture.file}", __package__), architecture.class_name)
    arguments = {key: value for key, value in source.arguments.items() if key not in architecture.examples}
    try:
        module: nn.Module = made(**arguments)
    except (ValueError, RuntimeError) as problem:
        raise ModelError(
            "model.module-arguments", f"{architecture.name} can't be made with these arguments: {problem}.",
            "Give arguments that fit together.",
        ) from problem  # fmt: skip
    return module.train()


def example_inputs(source: ModuleSource, dtype: torch.dtype, samples: int = SAMPLES) -> dict[str, Tensor]:
    """Return zeros as inputs, on torch's default device."""
    types = {"compute": dtype, "int64": torch.int64}
    return {
        name: torch.zeros([samples if n == "B" else int(n) for n in shape], dtype=types[element])
        for name, (shape, element) in source.architecture.inputs(source.arguments).items()
    }


def trace_module(source: ModuleSource, name: str, *, dtype: torch.dtype = torch.bfloat16) -> Program:
    """Return the program of an architecture.

    Parameters
    ----------
    dtype
        What it computes in; it stands for the plan's element type.

    Raises
    ------
    ModelError
        As `make_module` and `trace`.
    """
    with torch.device("meta"):
        module = make_module(source).to(dtype)
        inputs = example_inputs(source, dtype)
    specs = source.architecture.inputs(source.arguments)
    dims = {key: tuple(n if isinstance(n, str) else "" for n in shape) for key, (shape, _) in specs.items()}
    program = trace(WithLoss(module, lambda model, *given: model(*given)), inputs, dims, name, compute=dtype)
    return replace(program, feeds=source.feeds)
