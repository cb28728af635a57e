"""Tiny models of transformers, their programs, and whether a block computes what they do.

Transformers computes norms, routers and the loss in fp32 whatever the model's type. Here both sides do it in float64:
the model under a patch, the program with its casts to fp32 taken for casts to its own type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from planner.core.graph import Block
from planner.core.tensor import TensorMeta
from planner.importers.aten.program import Argument, Program, Word
from planner.importers.tracing.hf import build_model, trace_config
from tests.importers.aten.running import in_float64, run_block

BATCH, LENGTH = 3, 10


@cache
def traced_config(content: str) -> Program:
    """Return the program of a config, in float64 and without casts to fp32."""
    return precise(trace_config(content, "tiny", dtype=torch.float64))


def precise(program: Program) -> Program:
    """Return a program that computes in its own type what it computes in fp32."""

    def meta(m: TensorMeta) -> TensorMeta:
        return TensorMeta(m.shape, "compute") if m.dtype == "float32" else m

    def word(argument: Argument) -> Argument:
        if argument == Word("float32"):
            return Word("float64")
        return tuple(map(word, argument)) if isinstance(argument, tuple) else argument

    calls = tuple(
        replace(
            call, arguments=tuple(map(word, call.arguments)), keywords=tuple((k, word(v)) for k, v in call.keywords),
            results=tuple(map(meta, call.results)),
        )
        for call in program.calls
    )  # fmt: skip
    return replace(
        program, calls=calls,
        inputs=tuple(replace(i, meta=meta(i.meta)) for i in program.inputs),
        buffers=tuple(replace(b, meta=meta(b.meta)) for b in program.buffers),
    )  # fmt: skip


@contextmanager
def without_fp32() -> Any:
    """Let what asks for fp32 get float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def assert_same_as_model(content: str, block: Block, inputs: Mapping[str, Any], tolerance: float = 1e-7) -> None:
    """Check that a block has the loss and the gradients of the model of a config.

    Parameters
    ----------
    inputs
        By name, with more or fewer sequences than the model was traced with.
    """
    model, head, _ = build_model(json.loads(content), "tiny", torch.float64)
    # Grouped products of matrices are not there in float64.
    model.config._experts_implementation = "eager"
    generator = torch.Generator().manual_seed(1)
    state = {}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.2
        state[name] = noise + 1.0 if "norm" in name or ".ln_" in name else noise
    for name, parameter in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        made = torch.nn.Parameter(state[name], requires_grad=parameter.requires_grad)
        model.get_submodule(owner)._parameters[leaf] = made
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    with without_fp32():
        expected = head.run(model, *inputs.values())[0]
        expected.backward()
    shapes = {p.name: p.meta.shape for p in block.parameters}
    # A shared parameter has several names.
    parameters = {n: p for n, p in model.named_parameters(remove_duplicate=False) if n in shapes}
    assert {id(p) for p in model.parameters()} == {id(p) for p in parameters.values()}
    leaves = {name: parameters[name].detach().clone().reshape(shapes[name]).requires_grad_() for name in shapes}
    batch, length = next(iter(inputs.values())).shape[:2]
    with in_float64(), without_fp32():
        values = run_block(block, {**inputs, **leaves}, {"B": batch, "S": length})
    loss = values[block.outputs[0]]
    loss.backward()
    torch.testing.assert_close(loss.double(), expected.double(), rtol=1e-7, atol=0)
    whole = torch.cat([p.grad.flatten() for p in parameters.values() if p.grad is not None]).norm()
    wrong = {}
    for name, parameter in parameters.items():
        if parameter.grad is None:
            continue
        mine = leaves[name].grad
        error = (
            parameter.grad.norm() if mine is None else (mine.reshape(parameter.shape) - parameter.grad).norm()
        ) / max(parameter.grad.norm(), 1e-6 * whole)
        if not error <= tolerance:
            wrong[name] = float(error)
    assert wrong == {}, wrong


def tokens_and_labels(vocab: int) -> dict[str, Any]:
    """Return random tokens and labels, some ignored."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(vocab, (BATCH, LENGTH), generator=generator)
    labels = torch.randint(vocab, (BATCH, LENGTH), generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.3] = -100
    return {"tokens": tokens, "labels": labels}
