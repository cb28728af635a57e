"""The placements that the installed torch's DTensor registers for an operator, on one mesh axis, as rows.

Torch keeps them in three forms: rows without a mesh, functions of given placements (which are tried on every
combination), and decompositions. What is neither `R`, `S(dim)` nor a sum is left out; a masked partial sum is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpStrategy
from torch.distributed.tensor.placement_types import Partial, Replicate, Shard
from torch.utils._pytree import tree_flatten, tree_map

from .placements import Row

Build = Callable[..., tuple[Any, ...]]
"""Operands → the positional arguments of the aten operator."""


def rows(op: Any, build: Build, operands: Sequence[torch.Tensor], results: int, mesh: Any) -> set[Row]:
    """Return DTensor's rows of `op(*build(*operands))`, with the operands in the order given here.

    Parameters
    ----------
    results
        How many of the operator's results count; the others, such as what backward needs, are left out.
    mesh
        A torch mesh of one dim with two ranks.
    """
    propagator = DTensor._op_dispatcher.sharding_propagator
    single = propagator.op_single_dim_strategy_funcs.get(op)
    marks = [object() for _ in operands]
    order = [marks.index(leaf) for leaf in tree_flatten(build(*marks))[0] if leaf in marks]
    if single is not None:
        arguments = tree_map(_meta, build(*operands))
        found = {_row(one, order, results) for one in single.func(op, arguments, {})}
    else:
        ask = propagator.op_strategy_funcs.get(op) or propagator.decomp_strategy.propagate_strategy
        wrap = op in propagator.op_strategy_funcs
        found = set(_asked(propagator, ask, wrap, op, build, operands, order, results, mesh))
    return {row for row in found if row is not None}


def _asked(
    propagator: Any,
    ask: Any,
    wrap: bool,
    op: Any,
    build: Build,
    operands: Sequence[torch.Tensor],
    order: Sequence[int],
    results: int,
    mesh: Any,
) -> Iterator[Row | None]:
    """Ask a function of placements about every combination of them."""
    choices = [[Replicate(), Partial(), *(Shard(d) for d in range(x.dim()))] for x in operands]
    for given in product(*choices):
        specs = [DTensorSpec(mesh, (p,), tensor_meta=_meta(x)) for p, x in zip(given, operands, strict=True)]
        schema = OpSchema(op, build(*specs), {})
        if not wrap:
            propagator.decomp_strategy.ensure_schema_info(op)
        try:
            answer = ask(propagator._wrap_with_op_strategy(schema) if wrap else schema)
        except (RuntimeError, AssertionError, ValueError, LookupError, NotImplementedError):
            # It says so when it can't take a placement.
            continue
        for one in answer.strategies if isinstance(answer, OpStrategy) else []:
            made = one.output_specs if isinstance(one.output_specs, (tuple, list)) else [one.output_specs]
            taken = specs if one.input_specs is None else tree_flatten(list(one.input_specs))[0]
            yield _row([*(s and s.placements[0] for s in made), *(s.placements[0] for s in taken)], order, results)


def _meta(x: Any) -> Any:
    return TensorMeta(x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x


def _row(placed: Sequence[Any], order: Sequence[int], results: int) -> Row | None:
    made = [_text(p) for p in placed[: -len(order)] if p is not None][:results]
    read = ["R" if type(p).__name__ == "_MaskPartial" else _text(p) for p in placed[-len(order) :]]
    if not made or not all([*made, *read]):
        return None
    return tuple(read[order.index(i)] for i in range(len(order))), tuple(made)


def _text(placed: Any) -> str:
    if isinstance(placed, Partial):
        return "P" if placed.reduce_op == "sum" else ""
    if isinstance(placed, Replicate):
        return "R"
    return f"S{placed.dim}" if type(placed).__name__ in {"Shard", "_ShardingPlaceholder"} else ""
