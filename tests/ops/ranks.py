"""An operator, or the parts of a composite one, on pretend ranks: forward on shards, backward by the layout rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from planner.core.gradient import raw_layout
from planner.core.graph import Node
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy, layouts
from planner.ops import OPS, Cut
from tests.properties.strategies import pieces, shard

from .cases import codes, evaluate_on, expression, sizes, whole

Tensors = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One part on all ranks: operands as leaves of autograd, and results; both rank by rank."""

    node: Node
    operand_layouts: tuple[Layout, ...]
    result_layouts: tuple[Layout, ...]
    operands: tuple[list[Any], ...]
    results: tuple[tuple[Any, ...], ...]


def parts_of(one: Node, strategy: ShardStrategy, mesh: DeviceMesh) -> tuple[tuple[Node, ShardStrategy], ...]:
    """Return the parts of a node under a strategy; the node itself if it is ordinary."""
    cuts = {factor: Cut(size, mesh.size_of(strategy.axes(factor))) for factor, size in sizes(one).items()}
    return OPS[one.op].parts(one, strategy, cuts) or ((one, strategy),)


def forward(
    one: Node, strategy: ShardStrategy, operands: Tensors, mesh: DeviceMesh
) -> tuple[dict[str, Any], list[Run]]:
    """Run a node's parts on shards; every value is put together and cut again between them.

    Returns
    -------
    values
        Every value as a whole tensor, by name.
    runs
        What each part did.
    """
    values = dict(zip(one.operands, operands, strict=True))
    runs = []
    for part, its in parts_of(one, strategy, mesh):
        assert codes(part, its, mesh) == set(), f"part {part.name} of {one.name} under {its}"
        run = _run(part, its, [values[name] for name in part.operands], mesh)
        runs.append(run)
        for i, (value, layout) in enumerate(zip(part.results, run.result_layouts, strict=True)):
            shape = _shape(part, part.rule.results[i])
            world = [results[i].detach().numpy() for results in run.results]
            dtype = run.results[0][i].dtype
            values[value.name] = torch.tensor(whole(layout, world, shape, mesh)).to(dtype)
    return values, runs


def backward(
    one: Node, runs: Sequence[Run], values: Mapping[str, Any], seeds: Mapping[str, Any], mesh: DeviceMesh
) -> dict[str, Any]:
    """Return the gradient of every value that has one, as a whole tensor.

    Each part gets its results' gradients in their adjoint layouts; what its local backward hands to an operand is read
    in the raw layout of `core.gradient`.
    """
    gradients: dict[str, Any] = {name: seed.clone() for name, seed in seeds.items()}
    for run in reversed(runs):
        names = OPS[run.node.op].operand_names
        slots = [i for i, name in enumerate(names[: len(run.node.operands)])
                 if name in OPS[run.node.op].differentiable]  # fmt: skip
        made = [i for i, value in enumerate(run.node.results) if value.name in gradients]
        if not slots or not made:
            continue
        per_rank = [_local_backward(run, rank, slots, made, gradients, mesh) for rank in range(mesh.device_count)]
        for position, slot in enumerate(slots):
            raw = raw_layout(run.operand_layouts[slot], run.result_layouts, run.node.name)
            shape = _shape(run.node, run.node.rule.operands[slot])
            total = torch.tensor(whole(raw, [grads[position] for grads in per_rank], shape, mesh))
            name = run.node.operands[slot]
            gradients[name] = gradients[name] + total if name in gradients else total
    return gradients


def _run(part: Node, strategy: ShardStrategy, operands: Tensors, mesh: DeviceMesh) -> Run:
    operand_layouts, result_layouts = layouts(part.rule, strategy)
    rng = np.random.default_rng(1)
    worlds = [pieces(x.detach().numpy(), lay, mesh, rng) for x, lay in zip(operands, operand_layouts, strict=True)]
    names = OPS[part.op].operand_names
    tensors = [
        [_leaf(world[rank], names[i] in OPS[part.op].differentiable) for i, world in enumerate(worlds)]
        for rank in range(mesh.device_count)
    ]
    text = expression(part, strategy, mesh)
    results = tuple(evaluate_on(text, tensors[rank], mesh, rank) for rank in range(mesh.device_count))
    return Run(part, operand_layouts, result_layouts, tuple(tensors), results)


def _leaf(array: Any, differentiable: bool) -> Any:
    tensor = torch.tensor(array)
    return tensor.requires_grad_() if differentiable and tensor.is_floating_point() else tensor


def _local_backward(
    run: Run, rank: int, slots: Sequence[int], made: Sequence[int], gradients: Mapping[str, Any], mesh: DeviceMesh
) -> list[Any]:
    """Return what one rank's autograd hands to each operand slot; zeros where nothing flows."""
    leaves = [run.operands[rank][slot] for slot in slots]
    outputs, incoming = [], []
    for i in made:
        if run.results[rank][i].requires_grad:
            whole_gradient = gradients[run.node.results[i].name].numpy()
            outputs.append(run.results[rank][i])
            incoming.append(torch.tensor(shard(whole_gradient, run.result_layouts[i].adjoint, mesh, rank)))
    found = torch.autograd.grad(outputs, leaves, incoming, allow_unused=True) if outputs else [None] * len(leaves)
    return [np.zeros(leaf.shape) if g is None else g.numpy() for leaf, g in zip(leaves, found, strict=True)]


def _shape(one: Node, tensor: tuple[tuple[str, ...], ...]) -> tuple[int, ...]:
    extent = sizes(one)
    return tuple(int(np.prod([extent[f] for f in dim], dtype=int)) for dim in tensor)
