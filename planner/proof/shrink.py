"""Make a plan small enough to run here: fewer ranks, smaller sizes, the same decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf

from ..compose import evaluate as evaluate_plan
from ..compose import shrink_way, shrunk_graph, train
from ..core.assignment import TrainingGraph
from ..core.mesh import DeviceMesh
from ..core.plan import PipelineDecision
from ..core.stage import RECEIVE, plain
from ..core.symbol import evaluate
from ..core.tensor import DTYPE_BYTES
from ..core.units import format_bytes
from ..errors import PlannerError, ProofError
from ..hardware import cluster_name
from ..hardware import precision as precision_named
from ..plan import Plan
from ..schedules import definition_of, part_count
from .gradients import shrunk_gradients
from .reference import unsharded

_INDEX = re.compile(r"(?<=[./])(?:\d+(?:-\d+(?:\+\d+)?)?|\*)(?=[./:~]|$)")
"""An index of a list in a name, or what stands for several."""
LARGEST_WORLD = 8
LARGEST_BYTES = 8 << 30
"""Memory that all ranks and the unsharded run may need together."""
TRACED = 4
"""How many sizes of a model that has to be traced are tried once some fit; each takes seconds."""


def shrink(plan: Plan, largest_world: int = LARGEST_WORLD) -> Plan:
    """Return the plan on at most `largest_world` ranks with the smallest sizes on which its decisions are legal.

    Sizes at which every value is moved by the same collectives as in the plan, and the same is cut into unequal parts,
    are preferred to smaller ones. A graph that came from a file keeps its sizes and gets fewer layers.

    Raises
    ------
    ProofError
        `proof.mesh-too-large` when axes of their smallest sizes still need more ranks; `proof.sizes` when no
        small sizes are legal; `proof.too-large` when the sizes that are left need more memory than `LARGEST_BYTES`.
    """
    large = train(plan)
    traced = shrink_way(plan.graph.source) == "traced"
    problem: PlannerError | None = None
    found: list[tuple[int, Plan]] = []
    candidates = _small_plans(plan, large, _small_mesh(plan.decisions.mesh, largest_world))
    for tried, small in enumerate(candidates):
        if traced and found and tried >= TRACED:
            break
        if isinstance(small, PlannerError):
            problem = small
            continue
        try:
            training = train(small)
        except PlannerError as refused:
            problem = refused
            continue
        unlike = _cut_unlike(large, training)
        found.append((len(unlike), small))
        if not unlike and not _differing(large, training):
            must_fit(small)
            return small
    if not found:
        raise ProofError(
            "proof.sizes", f"No small sizes fit this plan's decisions on {largest_world} ranks; the last: {problem}",
            "Prove a plan with fewer axes, or report this.",
        )  # fmt: skip
    best = min(found, key=lambda pair: pair[0])[1]
    must_fit(best)
    return best


def must_fit(plan: Plan) -> None:
    """Refuse a plan whose ranks and unsharded run would need too much memory here."""
    ranks, needed = plan.decisions.mesh.device_count, needed_bytes(plan)
    if needed > LARGEST_BYTES:
        raise ProofError(
            "proof.too-large",
            f"At the sizes at which {plan.graph.name} can be run here, {ranks} ranks and the unsharded model need "
            f"{format_bytes(needed)}; a proof takes at most {format_bytes(LARGEST_BYTES)}.",
            "Load the model from its config, of which a smaller one can be made, or allow fewer ranks with --ranks.",
        )


def needed_bytes(plan: Plan) -> float:
    """Return what all ranks and the unsharded run hold together."""
    return plan.decisions.mesh.device_count * _bytes(plan) + _bytes(unsharded(plan))


def _bytes(plan: Plan) -> float:
    """Return what a rank holds, without what a device reserves for its libraries."""
    return sum(part.value for part in evaluate_plan(plan).memory.children if part.name != "reserved")


def _small_plans(plan: Plan, large: TrainingGraph, mesh: DeviceMesh) -> Iterator[Plan | PlannerError]:
    """Yield small plans: first what cuts like the plan, then what has heads that the ranks divide, small ones first.

    Or the reason why there is none of some sizes.
    """
    ranks, microbatches = mesh.device_count, plan_microbatches(plan, mesh)
    symbols = plan.graph.symbols
    element = DTYPE_BYTES[precision_named(plan.decisions.precision).gradient]
    way = shrink_way(plan.graph.source)
    for more in _remainders(plan, large, ranks):
        decisions = replace(
            plan.decisions,
            mesh=mesh,
            pipeline=_pipeline(plan),
            cluster=cluster_name(ranks, plan.cluster.device.name),
            global_batch=(max(2, ranks) + more.get("batch", 0)) * microbatches if "B" in symbols else 1,
            microbatches=microbatches,
            seq=2 * max(2, ranks) + more.get("seq", 0) if "S" in symbols else 0,
            precision="float64",
        )
        for kv_heads, group, head_dim in _sizes(plan, ranks, way):
            try:
                graph = shrunk_graph(
                    plan.graph, layers=_layers(plan, mesh, microbatches), kv_heads=kv_heads, group=group,
                    head_dim=head_dim,
                    hidden=kv_heads * group * head_dim + more.get("hidden", 0), ffn=4 * ranks + more.get("ffn", 0),
                    vocab=8 * ranks + more.get("vocab", 0),
                )  # fmt: skip
                seq = min(decisions.seq, graph.longest_seq or decisions.seq)
                gradients = shrunk_gradients(decisions.gradients, plan.graph, graph, element)
                yield Plan(graph=graph, decisions=replace(decisions, seq=seq, gradients=gradients))
            except PlannerError as refused:
                # The heads of some families make up the whole width.
                yield refused


def _remainders(plan: Plan, large: TrainingGraph, ranks: int) -> Iterator[dict[str, int]]:
    """Yield by how much each size is to exceed a multiple of the ranks.

    With the remainders of the plan's own sizes, every set of axes that was not made smaller divides what it divides in
    the plan. Smaller axes may divide more: then one more than a multiple is cut unevenly by any.
    """
    sizes = _named_sizes(plan)
    uneven = {size for size, _, _ in _uneven(large)}
    found = [
        {name: size % ranks for name, size in sizes.items()},
        {name: int(size in uneven) for name, size in sizes.items()},
        dict.fromkeys(sizes, 0),
    ]
    yield from (each for i, each in enumerate(found) if each not in found[:i])


def uncovered(plan: Plan, small: Plan) -> tuple[str, ...]:
    """Return what the shrunk run does not cover of the plan, one sentence each."""
    notes = []
    before, after = plan.decisions.mesh, small.decisions.mesh
    changed = [f"{name} {before.size(name)} → {after.size(name)}" for name in before.names
               if before.size(name) != after.size(name)]  # fmt: skip
    if changed:
        notes.append(f"Mesh axes were made smaller: {', '.join(changed)}.")
    if (compression := plan.decisions.gradients.compression) != "none":
        notes.append(f"Gradients were passed as they are, and not as {compression}, whose rounding is no error.")
    large, shrunk = train(plan), train(small)
    if missing := _missing(large, shrunk):
        listed = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        notes.append(f"{len(missing)} operators of the plan are not in the small model: {listed}.")
    unlike = _cut_unlike(large, shrunk)
    if unlike:
        listed = ", ".join(unlike[:5]) + (" …" if len(unlike) > 5 else "")
        notes.append(f"{len(unlike)} sizes are cut into unequal parts in the plan or here, and not in both: {listed}.")
    differing = _differing(large, shrunk)
    if differing:
        listed = ", ".join(differing[:5]) + (" …" if len(differing) > 5 else "")
        notes.append(f"{len(differing)} values are moved by other collectives at these sizes: {listed}.")
    return tuple(notes)


def _general(name: str) -> str:
    """Return a name for whatever layer and stage it is in."""
    return _INDEX.sub("*", plain(name))


def _missing(large: TrainingGraph, small: TrainingGraph) -> list[str]:
    """Return the operators that only the large model has, whichever layer they are in."""

    def names(training: TrainingGraph) -> list[str]:
        nodes = (assigned.node for assembly in training.assignment.assemblies for assigned in assembly.nodes)
        return list(dict.fromkeys(_general(node.origin or node.name) for node in nodes if node.op != RECEIVE))

    there = set(names(small))
    return [name for name in names(large) if name not in there]


def _uneven(training: TrainingGraph) -> Iterator[tuple[int, str, str]]:
    """Yield (size, who, factor or dim) of everything that is cut into unequal parts."""
    assignment = training.assignment
    for assembly in assignment.assemblies:
        for assigned in assembly.nodes:
            for factor, axes in assigned.strategy.factors:
                size = evaluate(assigned.node.rule.size(factor), assignment.symbols)
                if size % assignment.mesh.size_of(axes):
                    yield size, _general(assigned.node.name), factor
        for placed in assembly.parameters:
            shape = placed.parameter.meta.concrete(assignment.symbols)
            for dim, (size, axes) in enumerate(zip(shape, placed.storage.dims, strict=True)):
                if size % assignment.mesh.size_of(axes):
                    yield size, _general(placed.parameter.name), f"dim {dim}"


def _cut_unlike(large: TrainingGraph, small: TrainingGraph) -> list[str]:
    """Return what one of both cuts into unequal parts and the other does not."""
    both = [{f"{factor} of {name}": None for _, name, factor in _uneven(training)} for training in (large, small)]
    return [what for one, other in (both, both[::-1]) for what in one if what not in other]


def _named_sizes(plan: Plan) -> dict[str, int]:
    """Return the sizes of a plan that `shrink` chooses freely, of those that its model has."""
    sizes = {
        (node.op, factor): size
        for block in plan.graph.blocks
        for node in block.nodes
        for factor, size in node.rule.sizes
        if isinstance(size, int)
    }
    decisions = plan.decisions
    named = {
        "batch": decisions.global_batch // decisions.microbatches, "seq": decisions.seq,
        "hidden": sizes.get(("embedding", "h")),
        "ffn": next((s for op in ("swiglu", "geglu", "gelu", "relu", "silu") if (s := sizes.get((op, "h")))), None),
        "vocab": sizes.get(("embedding", "vocab")),
    }  # fmt: skip
    return {name: size for name, size in named.items() if size}


def plan_microbatches(plan: Plan, mesh: DeviceMesh) -> int:
    """Return 2 for a plan that accumulates over microbatches, else 1; in a pipeline, the fewest that fill it twice."""
    pipeline = plan.decisions.pipeline
    if pipeline is None:
        return min(2, plan.decisions.microbatches)
    ranks = mesh.size(pipeline.axis)
    definition = definition_of(pipeline.schedule)
    if definition is None:
        return 2 * ranks
    per_rank = pipeline.per_rank or definition.per_rank or 1
    legal = definition.legal_microbatches(ranks, per_rank, 2 * ranks)
    return next((count for count in legal if count > 1), 2 * ranks)


def _pipeline(plan: Plan) -> PipelineDecision | None:
    """Return the plan's pipeline with balanced stages: of a smaller model, other layers run on each."""
    pipeline = plan.decisions.pipeline
    return None if pipeline is None else replace(pipeline, stages=())


def _differing(large: TrainingGraph, small: TrainingGraph) -> list[str]:
    def kinds(training: TrainingGraph) -> dict[tuple[str, str], set[tuple[str, ...]]]:
        found: dict[tuple[str, str], set[tuple[str, ...]]] = {}
        for scope in training.scopes:
            moves = [(f.value, d.redistribution) for f in scope.fanouts for d in (*f.forward, *f.backward)]
            moves += [(u.parameter, moved) for u in scope.updates for moved in (u.gradient, u.values)]
            here: dict[tuple[str, str], tuple[str, ...]] = {}
            for value, moved in moves:
                key = scope.assembly.title.rstrip("0123456789-"), _general(value)
                here[key] = (*here.get(key, ()), *(step.kind for step in moved.steps))
            # Runs of one list, as stages have, are alike or not; how many there are does not matter.
            for key, steps in here.items():
                found.setdefault(key, set()).add(steps)
        return found

    after = kinds(small)
    return [key[1] for key, steps in kinds(large).items() if after.get(key, steps) != steps]


def _small_mesh(mesh: DeviceMesh, largest: int) -> DeviceMesh:
    """Return the mesh with its largest axes reduced, prime by prime, until it fits."""
    sizes = dict(mesh.axes)
    while (ranks := DeviceMesh.of(sizes).device_count) > largest:
        name = max(sizes, key=lambda axis: (sizes[axis], axis))
        smaller = sizes[name] // _least_prime(sizes[name])
        if smaller == 1:
            raise ProofError(
                "proof.mesh-too-large", f"The mesh {mesh} needs at least {ranks} ranks to keep every axis; "
                f"a proof runs at most {largest}.", "Allow more ranks with --ranks.",
            )  # fmt: skip
        sizes[name] = smaller
    return DeviceMesh.of(sizes)


def _least_prime(number: int) -> int:
    return next(p for p in range(2, number + 1) if number % p == 0)


def _sizes(plan: Plan, ranks: int, way: str) -> list[tuple[int, int, int]]:
    """Return candidate (key/value heads, heads to each, head dim): first what the ranks divide, small ones first.

    Of a model that has to be traced, a few: those that every axis is likely to divide come first.
    """
    if way == "layers":
        return [(1, 1, 1)]
    grouped = any(
        evaluate(size, frozenset()) > 1
        for repeat in plan.graph.root.repeats
        for node in repeat.block.nodes
        if node.op in {"attention", "window_attention"}
        for name, size in node.rule.sizes
        if name == "r"
    )
    odd = ranks // (ranks & -ranks)
    heads = sorted({1, 2, 4, 8, 16} | {odd, 2 * odd})
    choices = list(product(heads, (2, 4, 8) if grouped else (1,), sorted({4, 8, 4 * odd})))
    if way == "traced":
        likely = sorted(choices, key=lambda c: (c[0] % ranks > 0, c[2] < 8, c[0] * c[1] * c[2], c))
        return [*likely[:2], *(c for c in likely[2:] if c[0] in {2, 4} and c[2] == 8)][:TRACED]
    return sorted(choices, key=lambda c: (c[0] * c[1] * c[2] % ranks > 0, c[0] * c[1] * c[2], c))


def _layers(plan: Plan, mesh: DeviceMesh, microbatches: int) -> int:
    """Return two layers, or as many as the decisions tell apart; in a pipeline one more than there are stages."""
    pipeline = plan.decisions.pipeline
    if pipeline is not None:
        needed = part_count(pipeline.schedule, mesh.size(pipeline.axis), microbatches, pipeline.per_rank) + 1
        plan = replace(plan, decisions=replace(plan.decisions, pipeline=None))
        return max(needed, _layers(plan, mesh, microbatches))
    tokens = (token for target in plan.decisions.targets for token in target.split("."))
    numbers = [int(end) + 2 for token in tokens if (end := token.rpartition("-")[2]).isdigit()]
    count = min((repeat.count for repeat in plan.graph.root.repeats), default=inf)
    return int(min(count, max([2, *numbers])))
