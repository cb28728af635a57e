"""One or more nodes of every operator, small enough to try all strategies, and how to run them on ranks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from planner.core.graph import Attribute, Node, Value
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy, layouts, problems
from planner.core.symbol import evaluate
from planner.core.tensor import TensorMeta
from planner.exporters.explicit.local import local_of
from planner.exporters.runtime import indexing, operators, ordered, reductions, windows
from planner.exporters.runtime.mesh import Mesh
from planner.ops import OPS
from tests.ops.cases_of_families import cases_of_families
from tests.ops.cases_of_shapes import cases_of_shapes
from tests.properties.strategies import pieces, shard

BATCH, SEQ, HIDDEN, OUT, VOCAB, WIDTH = 4, 4, 8, 12, 8, 4
SYMBOLS = frozenset({("B", BATCH), ("S", SEQ)})
MESH = DeviceMesh.of({"a": 2, "b": 2})

World = list[Any]
REPLICATED = ShardStrategy()


def meta(*shape: int, dtype: str = "compute") -> TensorMeta:
    return TensorMeta(shape, dtype)


def node(op: str, *operands: TensorMeta, **attributes: Attribute) -> Node:
    results = OPS[op].infer(operands, attributes)
    return Node(
        name=f"m.{op}",
        op=op,
        operands=tuple(f"m.{name}" for name in OPS[op].operand_names[: len(operands)]),
        results=tuple(Value(name=f"m.{op}" + f":{i}" * (i > 0), meta=result) for i, result in enumerate(results)),
        attributes=tuple(sorted(attributes.items())),
        rule=OPS[op].rule(operands, results, attributes),
        module="m",
    )


STREAM, ROWS = meta(BATCH, SEQ, HIDDEN), meta(BATCH, SEQ)
LOGITS, LABELS = meta(BATCH, SEQ, VOCAB), meta(BATCH, SEQ, dtype="int64")
NUMBERS, SCALAR = meta(BATCH, SEQ, dtype="float32"), meta(dtype="float32")
TABLE, PART = meta(SEQ, WIDTH, dtype="float32"), meta(SEQ, WIDTH // 2, dtype="float32")


def _heads(count: int) -> TensorMeta:
    return meta(BATCH, count, SEQ, WIDTH)


CASES: dict[str, Node] = {
    "add": node("add", STREAM, STREAM),
    "attention": node("attention", _heads(4), _heads(4), _heads(4)),
    "attention-grouped": node("attention", _heads(4), _heads(2), _heads(2)),
    "attention-one-group": node("attention", _heads(4), _heads(1), _heads(1)),
    "count_targets": node("count_targets", LABELS, ignore_index=-100),
    "cross_entropy": node("cross_entropy", LOGITS, LABELS, ignore_index=-100),
    "dropout": node("dropout", STREAM, p=0.25, seed=7),
    "divide": node("divide", SCALAR, SCALAR),
    "embedding": node("embedding", LABELS, meta(VOCAB, HIDDEN)),
    "embedding-padding": node("embedding", LABELS, meta(VOCAB, HIDDEN), padding=5),
    "linear": node("linear", STREAM, meta(OUT, HIDDEN)),
    "linear-bias": node("linear", STREAM, meta(OUT, HIDDEN), meta(OUT)),
    "log_loss": node("log_loss", NUMBERS, NUMBERS, NUMBERS, LABELS, ignore_index=-100),
    "mean_square": node("mean_square", STREAM, width=HIDDEN, eps=1e-5),
    "merge_heads": node("merge_heads", _heads(4), groups=2, per_group=2),
    "merge_heads-ungrouped": node("merge_heads", _heads(4), groups=4, per_group=1),
    "pick_target": node("pick_target", LOGITS, LABELS, ignore_index=-100),
    "rms_norm": node("rms_norm", STREAM, meta(HIDDEN), eps=1e-5),
    "rms_norm-heads": node("rms_norm", _heads(4), meta(WIDTH), eps=1e-5),
    "rms_norm-plain": node("rms_norm", STREAM, eps=1e-5),
    "rms_scale": node("rms_scale", STREAM, NUMBERS, meta(HIDDEN), eps=1e-5),
    "rms_scale-plain": node("rms_scale", STREAM, NUMBERS, eps=1e-5),
    "rotary": node("rotary", _heads(4), TABLE, TABLE),
    "rotary-neighbours": node("rotary", _heads(4), TABLE, TABLE, pairs="neighbours"),
    "rotary-part": node("rotary", _heads(4), PART, PART),
    "rotary-regrouped": node("rotary", _heads(4), TABLE, TABLE, pairs="regrouped"),
    "rotary_table": node("rotary_table", head_dim=WIDTH, theta=1e4),
    "rotary_table-neighbours": node(
        "rotary_table", head_dim=WIDTH, frequencies=(1.0, 0.25), form="neighbours", scale=1.25
    ),
    "row_max": node("row_max", LOGITS),
    "split_heads": node("split_heads", meta(BATCH, SEQ, 4 * WIDTH), groups=2, per_group=2),
    "split_heads-ungrouped": node("split_heads", meta(BATCH, SEQ, 4 * WIDTH), groups=4, per_group=1),
    "sum_exp": node("sum_exp", LOGITS, NUMBERS),
    "sum_tokens": node("sum_tokens", NUMBERS),
    "swiglu": node("swiglu", STREAM, STREAM),
    "token_loss": node("token_loss", LOGITS, LABELS, ignore_index=-100),
    **cases_of_families(node, meta),
    **cases_of_shapes(node, meta),
}


def operands_of(one: Node, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Any]:
    """Return random whole operands: labels hold ignored ones, tokens do not."""
    rng = np.random.default_rng(seed)
    made = []
    definition = OPS[one.op]
    for name, factors in zip(definition.operand_names, one.rule.operands, strict=False):
        shape = tuple(prod(evaluate(one.rule.size(f), SYMBOLS) for f in dim) for dim in factors)
        if name in {"labels", "tokens"}:
            values = rng.integers(0, VOCAB, shape)
            if name == "labels":
                values[rng.random(shape) < 0.3] = -100
            made.append(torch.from_numpy(values))
            continue
        if name in {"condition", "mask", "other_mask"}:
            made.append(torch.from_numpy(rng.random(shape) < 0.5))
            if one.op == "masked_attention":
                # A query that sees no key has no softmax.
                made[-1][..., 0] = True
            continue
        if name in {"index", "indices"}:
            made.append(_indices(one, factors, shape, rng))
            continue
        if name in {"top", "ties"}:
            # The largest of small whole numbers, so that several elements tie.
            made[0] = made[0].round()
            dims = one.attribute("dims")
            top = made[0].amax(dims, keepdim=True)
            made.append(top if name == "top" else (made[0] == top).sum(dims, keepdim=True).to(dtype))
            continue
        if name == "moments":
            mean = rng.standard_normal(shape[:-1])
            made.append(torch.tensor(np.stack((mean, mean**2 + rng.random(shape[:-1]) + 0.5), -1), dtype=dtype))
            continue
        positive = name in {"mean_square", "count", "sum_exp"} or one.op in {"log", "sqrt", "rsqrt", "pow"}
        # A count below 1 would be taken for 1.
        least = 2.0 if name == "count" else 0.5
        array = rng.random(shape) + least if positive else rng.standard_normal(shape)
        if (one.op, name) == ("dispatch", "weights"):
            array *= rng.random(shape) < 0.5
        made.append(torch.tensor(array, dtype=dtype))
    return made


def _indices(one: Node, factors: tuple[tuple[str, ...], ...], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return indices into a dim `n`, candidates `c` or experts, without one twice along the dim that they stand for."""
    dim = next(i for i, names in enumerate(factors) if names[0] in {"m", "c", "choice"})
    size = evaluate(one.rule.size(next(f for f in ("n", "c", "expert") if f in one.rule.factors)), SYMBOLS)
    order = rng.random((*shape[:dim], size, *shape[dim + 1 :])).argsort(dim)
    return torch.from_numpy(order.take(range(shape[dim]), dim))


class Place(Mesh):
    """The runtime's mesh as one pretend rank sees it."""

    compute = torch.float64

    def __init__(self, mesh: DeviceMesh, rank: int) -> None:
        self.sizes, self.rank, self.device = dict(mesh.axes), rank, torch.device("cpu")
        # As in a training step under way.
        self.step, self.sequence = 3, 0


def expression(one: Node, strategy: ShardStrategy = REPLICATED, mesh: DeviceMesh = MESH) -> str:
    """Return the exported right-hand side, with operands x0, x1, …"""
    names = tuple(f"x{i}" for i in range(len(one.rule.operands)))
    return OPS[one.op].torch(local_of(one, strategy, names, SYMBOLS, mesh))


def evaluate_on(text: str, operands: list[Any], mesh: DeviceMesh, rank: int) -> tuple[Any, ...]:
    """Evaluate an exported expression as one rank does."""
    names: dict[str, object] = {
        "ops": operators,
        "indexing": indexing,
        "ordered": ordered,
        "reductions": reductions,
        "windows": windows,
        "F": F,
        "torch": torch,
        "mesh": Place(mesh, rank),
    }
    names |= {f"x{i}": operand for i, operand in enumerate(operands)}
    result = eval(text, names)
    return result if isinstance(result, tuple) else (result,)


def run_sharded(
    one: Node, strategy: ShardStrategy, operands: list[Any], mesh: DeviceMesh
) -> list[tuple[Layout, World]]:
    """Run an operator on shards of its operands; return each result's layout and what every rank has."""
    operand_layouts, result_layouts = layouts(one.rule, strategy)
    rng = np.random.default_rng(1)
    worlds = [pieces(x.numpy(), lay, mesh, rng) for x, lay in zip(operands, operand_layouts, strict=True)]
    text = expression(one, strategy, mesh)
    ranks = [
        evaluate_on(text, [torch.tensor(w[rank]) for w in worlds], mesh, rank) for rank in range(mesh.device_count)
    ]
    return [
        (layout, [ranks[rank][i].numpy() for rank in range(mesh.device_count)])
        for i, layout in enumerate(result_layouts)
    ]


def whole(layout: Layout, world: World, shape: tuple[int, ...], mesh: DeviceMesh) -> Any:
    """Put a tensor together from what ranks hold; fails if replicas differ or a shard has another shape."""
    reduce = {"sum": np.add, "max": np.maximum, "min": np.minimum}[layout.reduce]
    out = np.full(shape, np.nan)
    for rank in range(mesh.device_count):
        total = reduce.reduce([world[member] for member in mesh.group(layout.partial, rank)])
        view = shard(np.arange(prod(shape)).reshape(shape), layout, mesh, rank)
        assert total.shape == view.shape, f"rank {rank} has {total.shape}, its shard is {view.shape}"
        place = out.reshape(-1)
        held = place[view.reshape(-1)]
        fresh = np.isnan(held)
        np.testing.assert_allclose(total.reshape(-1)[~fresh], held[~fresh], rtol=1e-9, atol=1e-9)
        place[view.reshape(-1)] = total.reshape(-1)
    return out


def strategies(one: Node, mesh: DeviceMesh) -> list[ShardStrategy]:
    """Return every strategy, legal or not: each axis on a factor in any order, kept by any carriers, or unused."""
    carriers = list(product(*one.rule.terms)) if one.rule.terms else []
    places: list[object] = [None, *one.rule.factors, *carriers]
    found: dict[ShardStrategy, None] = {}
    for order in permutations(mesh.names):
        for chosen in product(places, repeat=len(order)):
            factors: dict[str, tuple[str, ...]] = {}
            kept: dict[str, tuple[int, ...]] = {}
            for axis, place in zip(order, chosen, strict=True):
                if isinstance(place, str):
                    factors[place] = (*factors.get(place, ()), axis)
                elif isinstance(place, tuple):
                    kept[axis] = place
            found[ShardStrategy.of(factors, kept)] = None
    return list(found)


def codes(one: Node, strategy: ShardStrategy, mesh: DeviceMesh) -> set[str]:
    """Return the codes of what is against a strategy."""
    return {p.code for p in problems(one.rule, strategy, sizes(one), mesh, one.name)}


def sizes(one: Node) -> Mapping[str, int]:
    return {factor: evaluate(size, SYMBOLS) for factor, size in one.rule.sizes}
