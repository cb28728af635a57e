"""Random legal plans: every operator's strategy and every parameter's layout drawn at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from planner.compose import bundle, train
from planner.core.chunk import lengths
from planner.core.collective import Step
from planner.core.graph import Block, ModelGraph, Node, Parameter
from planner.core.layers import Layers
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.rule import ShardingRule
from planner.core.strategy import ShardStrategy, problems
from planner.core.symbol import evaluate
from planner.errors import PlannerError
from planner.hardware import cluster_name
from planner.plan import Plan
from tests.tiny import MODELS, tiny_graph, with_dropout

MESHES = {
    2: ("a:2",),
    3: ("a:3",),
    6: ("a:3,b:2", "a:2,b:3"),
    4: ("a:2,b:2", "a:2,b:2", "a:4,b:1", "a:2,b:1,c:2"),
    8: ("a:2,b:2,c:2", "a:2,b:2,c:2", "a:4,b:2", "a:2,b:4"),
}
SIZES = (
    {"num_key_value_heads": 4, "num_attention_heads": 8},
    {"num_key_value_heads": 2, "num_attention_heads": 8},
    {"num_key_value_heads": 8, "num_attention_heads": 8},
    {"num_key_value_heads": 1, "num_attention_heads": 4, "head_dim": 8},
)
WIDTHS = {"vocab_size": (33, 13, 3), "hidden_size": (30, 33, 5), "intermediate_size": (50, 7)}
"""Sizes that no axis divides, some of which leave ranks without a part."""

SHARES = 0.15, 0.5, 0.9


@dataclass(slots=True)
class Draw:
    """A legal plan with its bundle, and the codes of the plans that were refused before it was found."""

    plan: Plan
    files: dict[str, str]
    refused: Counter[str] = field(default_factory=Counter)


def draw(seed: int, world: int) -> Draw:
    """Return the first legal plan of a seed."""
    random = Random(f"{world}/{seed}")
    return first_legal(lambda: random_plan(random, world))


def first_legal(propose: Callable[[], Plan], *, limit: int = 200) -> Draw:
    """Return the first proposal that is legal; whatever else than a PlannerError one raises goes up."""
    refused: Counter[str] = Counter()
    while refused.total() < limit:
        try:
            plan = propose()
            return Draw(plan, bundle(plan), refused)
        except PlannerError as problem:
            finding = problem.diagnostic
        assert finding.code, finding
        assert not finding.code.startswith("verify."), finding
        assert finding.message.strip(), finding
        refused[finding.code] += 1
    raise AssertionError(refused)


def random_plan(random: Random, world: int) -> Plan:
    """Return a plan that may or may not be legal."""
    graph = tiny_graph(
        random.choice(list(MODELS)),
        tied=random.random() < 0.4,
        num_hidden_layers=random.choice((1, 2, 3)),
        **random.choice(SIZES),
        **{name: random.choice(sizes) for name, sizes in WIDTHS.items() if random.random() < 0.4},
    )
    if random.random() < 0.5:
        graph = with_dropout(graph)
    return random_plan_of(graph, random, world)


def random_plan_of(graph: ModelGraph, random: Random, world: int, shares: tuple[float, ...] = SHARES) -> Plan:
    """Return a plan of a graph that may or may not be legal.

    Parameters
    ----------
    shares
        Of the operators that are decided on, of which one is drawn.
    """
    mesh = DeviceMesh.parse(random.choice(MESHES[world]))
    microbatches = random.choice((1, 1, 2))
    batch, seq = microbatches * random.choice((4, 4, 8, 3, 1)), random.choice((8, 8, 8, 7, 3))
    plan = Plan.new(
        graph, cluster=cluster_name(mesh.device_count), mesh=mesh, global_batch=batch,
        seq=seq if "S" in graph.symbols else 0, microbatches=microbatches, precision="float64",
    )  # fmt: skip
    # Some plans are dense with decisions, others leave much to what follows from few.
    share = random.choice(shares)
    for node, layers in _operators(graph, random):
        if random.random() < share:
            plan = _decide(random, plan, node, layers)
    for parameter, layers in _parameters(graph, random):
        if random.random() < share / 2:
            plan = _store(random, plan, parameter, layers)
    return plan


def _blocks(graph: ModelGraph, random: Random) -> Iterator[tuple[Block, str]]:
    """Yield each block with what stands for its layer: all, one, or a range."""
    yield graph.root, ""
    for repeat in graph.root.repeats:
        yield repeat.block, "*"
        if random.random() < 0.4:
            start = random.randrange(repeat.count)
            yield repeat.block, random.choice((f"{start}", f"{start}-{random.randrange(start, repeat.count)}"))


def _operators(graph: ModelGraph, random: Random) -> Iterator[tuple[Node, str]]:
    yield from ((node, layers) for block, layers in _blocks(graph, random) for node in block.nodes)


def _parameters(graph: ModelGraph, random: Random) -> Iterator[tuple[Parameter, str]]:
    yield from ((p, layers) for block, layers in _blocks(graph, random) for p in block.parameters)


def target(name: str, layers: str) -> str:
    """Return the target that names one operator or parameter on some layers, told by the iterations of its repeat."""
    tokens = []
    for token in name.replace("/", ".").split("."):
        some, wanted = Layers.parse(token) if "-" in token else None, Layers.parse(layers)
        if some is not None and wanted is not None:
            token = str(some.part(wanted.first, wanted.last + 1))
        tokens.append(layers if token == "*" else token)
    return ".".join(tokens)


def _decide(random: Random, plan: Plan, node: Node, layers: str) -> Plan:
    mesh = plan.decisions.mesh
    sizes = {factor: evaluate(size, plan.decisions.symbols) for factor, size in node.rule.sizes}
    strategy = random_strategy(random, node.rule, mesh)
    # Most draws are legal for the operator on its own; the few others are to be refused.
    for _ in range(8):
        if not problems(node.rule, strategy, sizes, mesh, node.name) or random.random() < 0.01:
            break
        strategy = random_strategy(random, node.rule, mesh)
    else:
        strategy = ShardStrategy()
    pinned = node.rule.factors if random.random() < 0.7 else tuple(f for f, _ in strategy.factors)
    if pinned:
        plan = plan.shard(target(node.name, layers), {f: strategy.axes(f) for f in pinned})
    for axis, carriers in strategy.kept:
        plan = plan.keep(target(node.name, layers), axis, carriers)
    return plan


def random_strategy(random: Random, rule: ShardingRule, mesh: DeviceMesh) -> ShardStrategy:
    """Give every axis, in any order, to a factor, to a kept partial sum, or to nothing."""
    factors: dict[str, tuple[str, ...]] = {}
    kept: dict[str, tuple[int, ...]] = {}
    free = [f for f in rule.factors if rule.role(f) != "blocked"] or list(rule.factors)
    for axis in random.sample(mesh.names, len(mesh.names)):
        kind = random.random()
        if kind < 0.6 and free:
            factor = random.choice(free)
            factors[factor] = (*factors.get(factor, ()), axis)
        elif kind < 0.75 and rule.terms:
            kept[axis] = tuple(random.choice(term) for term in rule.terms)
    return ShardStrategy.of(factors, kept)


def _store(random: Random, plan: Plan, parameter: Parameter, layers: str) -> Plan:
    where = target(parameter.name, layers)
    plan = plan.store(where, **_place(random, plan, parameter), regather=random.random() < 0.6)
    if random.random() < 0.4:
        place = {} if random.random() < 0.3 else _place(random, plan, parameter)
        plan = plan.store(where, of="gradient", **place, deferred=random.random() < 0.5)
    if random.random() < 0.3:
        plan = plan.store(where, of="optimizer", **_place(random, plan, parameter))
    return plan


def _place(random: Random, plan: Plan, parameter: Parameter) -> dict[str, Any]:
    """Return axes to be added, or a layout."""
    names = plan.decisions.mesh.names
    if random.random() < 0.4:
        return {"axes": random.sample(names, random.randint(0, len(names)))}
    dims: list[tuple[str, ...]] = [()] * len(parameter.meta.shape)
    for axis in random.sample(names, len(names)):
        if random.random() < 0.6:
            dim = random.randrange(len(dims))
            dims[dim] += (axis,)
    return {"layout": Layout(tuple(dims))}


def features(plan: Plan) -> Counter[str]:
    """Count what a plan exercises, to see that the draws cover what they should."""
    found: Counter[str] = Counter()
    training = train(plan)
    mesh, symbols = training.assignment.mesh, training.assignment.symbols
    assembled = [scope.assembly for scope in training.scopes]
    found["runs cut"] += len(assembled) > 2
    found["microbatches"] += plan.decisions.microbatches > 1
    for scope in training.scopes:
        for placed in scope.assembly.parameters:
            shape = placed.parameter.meta.concrete(symbols)
            found["unequal storage"] += not placed.storage.even(shape, mesh)
            found["unequal regather"] += placed.regather and not placed.storage.even(shape, mesh)
        found["gradient elsewhere"] += any(f.apart and not f.deferred for f in scope.fanouts)
        found["gradient deferred"] += any(f.deferred for f in scope.fanouts)
        found["optimizer elsewhere"] += any(u.apart for u in scope.updates)
        found["regather"] += any(f.again for f in scope.fanouts)
        for fanout in scope.fanouts:
            found["several layouts of readers"] += len(fanout.forward) > 1
            found["three layouts of readers"] += len(fanout.forward) > 2
            found["several raw gradients"] += len(fanout.backward) > 1
            for delivery in (*fanout.forward, *fanout.backward):
                moved = delivery.redistribution
                found["partial stays"] += not moved.steps and bool(moved.source.partial)
                found.update(f"step {step.kind}" for step in moved.steps)
                found.update(f"unequal {step.kind}" for step in moved.steps if _unequal(step, mesh))
                found["axes not in mesh order"] += any(
                    step.axes != tuple(n for n in plan.decisions.mesh.names if n in step.axes) for step in moved.steps
                )
        for assigned in scope.assembly.nodes:
            op, strategy = assigned.node.op, assigned.strategy
            found["kept partial"] += bool(strategy.kept)
            found["several axes on a factor"] += any(len(axes) > 1 for _, axes in strategy.factors)
            found["sharded sequence in attention"] += op == "attention" and bool(strategy.axes("seq"))
            found["dropout on shards"] += op == "dropout" and bool(assigned.operands[0].sharded)
            found["dropout of partial sums"] += op == "dropout" and bool(assigned.operands[0].partial)
            found["sharded rotary table"] += op == "rotary_table" and bool(strategy.axes("seq"))
            found["sharded width of a norm"] += op == "mean_square"
            found["sharded vocabulary of the loss"] += op == "sum_exp"
            found["sharded vocabulary of the table"] += op == "embedding" and bool(strategy.axes("vocab"))
            for factor, axes in strategy.factors:
                parts = lengths(evaluate(assigned.node.rule.size(factor), symbols), axes, mesh)
                found[f"unequal {factor}"] += len(parts) > 1
                found[f"no {factor} on some ranks"] += parts[0] > 0
                found["unequal chunks of chunks"] += len(parts) > 1 and sum(mesh.size(a) > 1 for a in axes) > 1
            bias = op == "linear" and len(assigned.operands) == 3
            found["bias under a sharded contraction"] += bias and bool(strategy.axes("k"))
    return found


def _unequal(step: Step, mesh: DeviceMesh) -> bool:
    return not (step.source.even(step.shape, mesh) and step.target.even(step.shape, mesh))
