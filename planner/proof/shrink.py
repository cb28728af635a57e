"""Make a plan small enough to run here: fewer ranks, smaller sizes, the same decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf

from ..compose import shrunk_graph, train
from ..core.assignment import TrainingGraph
from ..core.mesh import DeviceMesh
from ..core.symbol import evaluate
from ..errors import PlannerError, ProofError
from ..hardware import cluster_name
from ..plan import Plan

LARGEST_WORLD = 8


def shrink(plan: Plan, largest_world: int = LARGEST_WORLD) -> Plan:
    """Return the plan on at most `largest_world` ranks with the smallest sizes on which its decisions are legal.

    Sizes at which every value is moved by the same collectives as in the plan are preferred to smaller ones. What the
    plan cuts into unequal parts is one more than a multiple of the ranks, so that any axis does.

    Raises
    ------
    ProofError
        `proof.mesh-too-large` when axes of their smallest sizes still need more ranks; `proof.sizes` when no
        small sizes are legal.
    """
    mesh = _small_mesh(plan.decisions.mesh, largest_world)
    ranks = mesh.device_count
    large = train(plan)
    cut = frozenset(size for size, _, _ in _uneven(large))
    odd = {name: int(size in cut) for name, size in _named_sizes(plan).items()}
    microbatches = plan_microbatches(plan)
    decisions = replace(
        plan.decisions,
        mesh=mesh,
        cluster=cluster_name(ranks, plan.cluster.device.name),
        global_batch=(max(2, ranks) + odd["batch"]) * microbatches,
        microbatches=microbatches,
        seq=2 * max(2, ranks) + odd["seq"],
        precision="float64",
    )
    problem: PlannerError | None = None
    fallback: Plan | None = None
    for kv_heads, group, head_dim in _sizes(plan):
        width = kv_heads * group * head_dim
        if width % ranks:
            continue
        graph = shrunk_graph(
            plan.graph, layers=_layers(plan), kv_heads=kv_heads, group=group, head_dim=head_dim,
            hidden=width + odd["hidden"], ffn=4 * ranks + odd["ffn"], vocab=8 * ranks + odd["vocab"],
        )  # fmt: skip
        small = Plan(graph=graph, decisions=decisions)
        try:
            training = train(small)
        except PlannerError as found:
            problem = found
            continue
        if not _differing(large, training):
            return small
        fallback = fallback or small
    if fallback is not None:
        return fallback
    raise ProofError(
        "proof.sizes", f"No small sizes fit this plan's decisions on the mesh {mesh}; the last problem: {problem}",
        "Prove a plan with fewer axes, or report this.",
    )  # fmt: skip


def uncovered(plan: Plan, small: Plan) -> tuple[str, ...]:
    """Return what the shrunk run does not cover of the plan, one sentence each."""
    notes = []
    before, after = plan.decisions.mesh, small.decisions.mesh
    changed = [f"{name} {before.size(name)} → {after.size(name)}" for name in before.names
               if before.size(name) != after.size(name)]  # fmt: skip
    if changed:
        notes.append(f"Mesh axes were made smaller: {', '.join(changed)}.")
    large, shrunk = train(plan), train(small)
    still = {(name, factor) for _, name, factor in _uneven(shrunk)}
    evened = {
        size: f"{size} ({factor} of {name})" for size, name, factor in _uneven(large) if (name, factor) not in still
    }
    if evened:
        notes.append(
            f"Sizes that are cut into unequal parts are cut into equal ones here: {', '.join(evened.values())}."
        )
    differing = _differing(large, shrunk)
    if differing:
        listed = ", ".join(differing[:5]) + (" …" if len(differing) > 5 else "")
        notes.append(f"{len(differing)} values are moved by other collectives at these sizes: {listed}.")
    return tuple(notes)


def _uneven(training: TrainingGraph) -> Iterator[tuple[int, str, str]]:
    """Yield (size, who, factor or dim) of everything that is cut into unequal parts."""
    assignment = training.assignment
    for assembly in assignment.assemblies:
        for assigned in assembly.nodes:
            for factor, axes in assigned.strategy.factors:
                size = evaluate(assigned.node.rule.size(factor), assignment.symbols)
                if size % assignment.mesh.size_of(axes):
                    yield size, assigned.node.name, factor
        for placed in assembly.parameters:
            shape = placed.parameter.meta.concrete(assignment.symbols)
            for dim, (size, axes) in enumerate(zip(shape, placed.storage.dims, strict=True)):
                if size % assignment.mesh.size_of(axes):
                    yield size, placed.parameter.name, f"dim {dim}"


def _named_sizes(plan: Plan) -> dict[str, int]:
    """Return the sizes of a plan that `shrink` chooses freely."""
    blocks = [plan.graph.root, *(repeat.block for repeat in plan.graph.root.repeats)]
    sizes = {
        (node.op, factor): size
        for block in blocks
        for node in block.nodes
        for factor, size in node.rule.sizes
        if isinstance(size, int)
    }
    decisions = plan.decisions
    return {
        "batch": decisions.global_batch // decisions.microbatches, "seq": decisions.seq,
        "hidden": sizes["embedding", "h"], "ffn": sizes["swiglu", "h"], "vocab": sizes["embedding", "vocab"],
    }  # fmt: skip


def plan_microbatches(plan: Plan) -> int:
    """Return 2 for a plan that accumulates over microbatches, else 1."""
    return min(2, plan.decisions.microbatches)


def _differing(large: TrainingGraph, small: TrainingGraph) -> list[str]:
    def kinds(training: TrainingGraph) -> dict[tuple[str, str], tuple[str, ...]]:
        return {
            (scope.assembly.title.rstrip("0123456789-"), f.value): tuple(
                step.kind for d in (*f.forward, *f.backward) for step in d.redistribution.steps
            )
            for scope in training.scopes
            for f in scope.fanouts
        }

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


def _sizes(plan: Plan) -> list[tuple[int, int, int]]:
    """Return candidate (key/value heads, heads to each, head dim), small ones first."""
    grouped = any(
        evaluate(size, frozenset()) > 1
        for repeat in plan.graph.root.repeats
        for node in repeat.block.nodes
        if node.op == "attention"
        for name, size in node.rule.sizes
        if name == "r"
    )
    choices = product((1, 2, 4, 8, 16), (2, 4, 8) if grouped else (1,), (4, 8))
    return sorted(choices, key=lambda c: (c[0] * c[1] * c[2], c))


def _layers(plan: Plan) -> int:
    """Return two layers, or as many as the decisions tell apart."""
    tokens = (token for target in plan.decisions.targets for token in target.split("."))
    numbers = [int(end) + 2 for token in tokens if (end := token.rpartition("-")[2]).isdigit()]
    count = min((repeat.count for repeat in plan.graph.root.repeats), default=inf)
    return int(min(count, max([2, *numbers])))
