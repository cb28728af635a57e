"""Soundness of backward: what local autograd hands back on shards is, in the raw layout, the whole gradient.

With the forward test of `test_sharded` this is the soundness of every rule: every legal strategy of every operator, on
a mesh of two axes, in float64, against the whole operator.
"""

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from planner.core.graph import Node
from planner.ops import OPS

from .cases import CASES, MESH, operands_of
from .ranks import backward, forward
from .test_sharded import legal, reference

DIFFERENTIABLE = [name for name, one in CASES.items() if OPS[one.op].differentiable]


def whole_gradients(one: Node, operands: list) -> tuple[dict, dict]:  # type: ignore[type-arg]
    """Return seeds of the results and gradients of the operands, by name."""
    definition = OPS[one.op]
    names = definition.operand_names[: len(operands)]
    leaves = [
        x.clone().requires_grad_(n in definition.differentiable and x.is_floating_point())
        for n, x in zip(names, operands, strict=True)
    ]
    results = reference(one, leaves)
    generator = torch.Generator().manual_seed(5)
    made = [(value.name, x) for value, x in zip(one.results, results, strict=True) if x.requires_grad]
    seeds = {name: torch.randn(x.shape, generator=generator, dtype=x.dtype) for name, x in made}
    asked = [(name, x) for name, x in zip(one.operands, leaves, strict=True) if x.requires_grad]
    found = torch.autograd.grad([x for _, x in made], [x for _, x in asked], list(seeds.values()), allow_unused=True)
    return seeds, {name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(asked, found, strict=True)}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_right(name: str) -> None:
    one = CASES[name]
    operands = operands_of(one)
    seeds, expected = whole_gradients(one, operands)
    assert expected, f"{name} has no gradient"
    for strategy in legal(one):
        values, runs = forward(one, strategy, operands, MESH)
        made = backward(one, runs, values, seeds, MESH)
        for operand, gradient in expected.items():
            message = f"{operand} of {name} under {strategy}"
            np.testing.assert_allclose(made[operand], gradient, rtol=1e-9, atol=1e-9, err_msg=message)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_what_is_said_to_have_no_gradient_has_none(name: str) -> None:
    """An operand outside `differentiable` that autograd would reach is a gradient forgotten."""
    one = CASES[name]
    definition = OPS[one.op]
    operands = [x.requires_grad_(x.is_floating_point()) for x in operands_of(one)]
    results = [x for x in reference(one, operands) if x.requires_grad]
    floating = [(n, x) for n, x in zip(definition.operand_names, operands, strict=False) if x.requires_grad]
    found = torch.autograd.grad([x.sum() for x in results], [x for _, x in floating], allow_unused=True)
    reached = {n for (n, _), g in zip(floating, found, strict=True) if g is not None}
    assert reached - set(definition.differentiable) <= WITHOUT_GRADIENT.get(one.op, set())


WITHOUT_GRADIENT = {
    "add_sink": {"maximum"},
    "sink_max": {"maximum"},
    "divide": {"count"},
    "log_loss": {"maximum"},
    "log_softmax_shift": {"maximum"},
    "share_ties": {"ties"},
    "rotary": {"cos", "sin"},
    "softmax_scale": {"maximum"},
    "sum_exp": {"maximum"},
}
"""Operands that are counts, tables, or a maximum whose gradients cancel, so that nothing needs their gradient."""
