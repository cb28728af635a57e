"""A module that has outputs and no loss → its program, with a loss that stands for whoever uses the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from ...core.tensor import TensorMeta
from ...errors import ModelError
from ..aten.dtypes import FLOATING
from ..aten.program import Call, Program, Ref, Weight
from .trace import WithLoss, trace

EXIT = "exit_{}"
"""Path of the parameter that output k is multiplied by, as a sum, in the loss: whoever uses the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A program whose loss is Σ exit_k · Σ output_k, and how its module returns the outputs."""

    program: Program
    count: int
    form: TreeSpec


def trace_outputs(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], name: str, *, compute: torch.dtype,
    values: Mapping[str, torch.Tensor],
) -> Traced:  # fmt: skip
    """Return the program of a module on inputs of fixed sizes.

    Parameters
    ----------
    inputs
        Tensors by name in the order of `forward`, on the device of the module.
    compute
        Element type that the plan computes in.
    values
        What buffers hold, by path.

    Raises
    ------
    ModelError
        `model.output-kind` for an output that is no tensor of floating numbers, `model.buffer-updated` for a module
        that keeps running statistics; what `trace` raises.
    """
    forms: list[TreeSpec] = []
    updated: set[str] = set()

    def run(inner: torch.nn.Module, *args: torch.Tensor) -> tuple[Any, ...]:
        before = {path: (id(buffer), buffer._version) for path, buffer in inner.named_buffers()}
        made, form = tree_flatten(inner(*args))
        after = {path: (id(buffer), buffer._version) for path, buffer in inner.named_buffers()}
        updated.update(path for path, state in after.items() if before.get(path) != state)
        for place, each in enumerate(made):
            if not isinstance(each, torch.Tensor):
                raise _no_numbers(name, place, type(each).__name__)
        forms[:] = [form]
        return tuple(made)

    dims = {key: ("",) * tensor.dim() for key, tensor in inputs.items()}
    program = trace(WithLoss(module, run), inputs, dims, name, values=values, compute=compute)
    if updated:
        raise ModelError(
            "model.buffer-updated", f"{name} changes its buffers when it runs: {', '.join(sorted(updated))}.",
            "Shard it after eval(), without track_running_stats, or without the modules that do this.", subject=name,
        )  # fmt: skip
    metas = {call.result(i): meta for call in program.calls for i, meta in enumerate(call.results)}
    weights, calls, total = list(program.weights), list(program.calls), ""
    for place, output in enumerate(program.outputs):
        meta = metas.get(output, TensorMeta(()))
        if meta.dtype not in FLOATING or output not in metas:
            raise _no_numbers(name, place, str(meta) if output in metas else "an input or parameter itself")
        scalar, path = TensorMeta((), meta.dtype), EXIT.format(place)
        weights.append(Weight(name=path, path=path, meta=scalar))
        added = [
            ("sum", "aten.sum.default", (Ref(output),)),
            ("use", "aten.mul.Tensor", (Ref(f"sum_of_{path}"), Ref(path))),
        ]
        added += [("loss", "aten.add.Tensor", (Ref(total), Ref(f"use_of_{path}")))] if total else []
        for word, target, arguments in added:
            total = f"{word}_of_{path}"
            calls.append(Call(name=total, target=target, arguments=arguments, results=(scalar,)))
    count = len(program.outputs)
    program = replace(program, weights=tuple(weights), calls=tuple(calls), outputs=(total,), logits="")
    return Traced(program=program, count=count, form=forms[0])


def _no_numbers(name: str, place: int, what: str) -> ModelError:
    return ModelError(
        "model.output-kind", f"Output {place} of {name} is {what}, not a tensor of floating numbers that it computes.",
        "Return only such tensors from what is sharded.", subject=name,
    )  # fmt: skip
