"""Wrong rules, written as changes of a right training graph or of what its exported code calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.collectives import COLLECTIVES
from planner.compose import bundle, redistribute, train
from planner.core.assignment import Delivery, Fanout, TrainingGraph
from planner.core.collective import Redistribution, Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.plan import Plan
from planner.proof import Proof

Rule = Callable[[Fanout], Fanout]
Prove = Callable[..., Proof]


def fails(
    prove: Prove, plan: Plan, rule: Rule | None = None, text: Callable[[str], str] = lambda text: text
) -> list[str]:
    """Return what is wrong with the numbers of a plan whose fan-outs or text are changed; it must change something."""
    files = bundle(plan)
    training = train(plan)
    if rule is not None:
        changed = rewritten(training, rule)
        assert changed != training, "the rule changes nothing here"
        files = bundle(plan, training=changed)
    model = text(files["model.py"])
    proof = prove(plan, files | {"model.py": model})
    return [*proof.failures, *(row.name for row in proof.rows if not row.ok)]


def rewritten(training: TrainingGraph, rule: Rule) -> TrainingGraph:
    """Return the graph with a rule applied to every fan-out."""
    scopes = tuple(replace(scope, fanouts=tuple(map(rule, scope.fanouts))) for scope in training.scopes)
    return replace(training, scopes=scopes)


class Wrong:
    """Rules that come to mind first, on a mesh."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh

    def gradient_of_partial_is_partial(self, fanout: Fanout) -> Fanout:
        """A value's gradient has the value's layout, Partial included."""
        if not fanout.source.partial or not fanout.backward:
            return fanout
        back = [self._move(fanout, d.redistribution.source, fanout.source) for d in fanout.backward]
        return replace(fanout, gradient=fanout.source, backward=_with(fanout.backward, back))

    def raw_is_the_operand(self, fanout: Fanout) -> Fanout:
        """The gradient of a replicated operand is replicated, whatever the operator's result is."""
        return self._raw(fanout, lambda operand, raw: Layout(operand.dims))

    def raw_of_partial_is_partial(self, fanout: Fanout) -> Fanout:
        """The gradient of a Partial operand is Partial, and has to be reduced."""
        return self._raw(fanout, lambda operand, raw: raw.with_partial((*raw.partial, *operand.partial)))

    def raw_is_partial_wherever_it_is_not_sharded(self, fanout: Fanout) -> Fanout:
        """The gradient of a replicated operand is always a sum over the ranks."""

        def partial(operand: Layout, raw: Layout) -> Layout:
            return raw.with_partial(tuple(a for a, n in self.mesh.axes if n > 1 and a not in operand.used))

        return self._raw(fanout, partial)

    def backward_is_the_transpose(self, fanout: Fanout) -> Fanout:
        """Every collective comes back as its dual, whoever reads the value."""
        if not fanout.backward or not any(d.redistribution.steps for d in fanout.forward):
            return fanout
        back = []
        for delivery in fanout.forward:
            steps = tuple(self._dual(s) for s in reversed(delivery.redistribution.steps) if s.source.reduce == "sum")
            moved = Redistribution(
                source=delivery.redistribution.target.adjoint, target=fanout.source.adjoint, shape=fanout.shape,
                steps=steps,
            )  # fmt: skip
            members = tuple(i for i in delivery.readers if fanout.readers[i].raw is not None)
            if members:
                back.append(Delivery(readers=members, redistribution=moved))
        return replace(fanout, backward=tuple(back))

    def unequal_gradients_are_added(self, fanout: Fanout) -> Fanout:
        """Raw gradients of all readers are added first, if only their shapes agree."""
        if len({d.redistribution.source.dims for d in fanout.backward}) != 1 or len(fanout.backward) < 2:
            return fanout
        members = tuple(sorted(i for d in fanout.backward for i in d.readers))
        # The layout of the first stands for all.
        first = fanout.backward[0]
        raw = first.redistribution.source
        readers = tuple(replace(r, raw=raw if i in members else r.raw) for i, r in enumerate(fanout.readers))
        return replace(fanout, readers=readers, backward=(replace(first, readers=members),))

    def only_one_reader_is_asked(self, fanout: Fanout) -> Fanout:
        """A value that is read twice gets the gradient of one of its slots."""
        if len(fanout.backward) != 1 or len(fanout.backward[0].readers) < 2:
            return fanout
        only = fanout.backward[0].readers[0]
        # The others are told apart by a layout that nothing comes back from.
        readers = tuple(
            replace(r, raw=r.raw if i == only or r.raw is None else r.raw.with_partial(("none",)))
            for i, r in enumerate(fanout.readers)
        )
        return replace(fanout, readers=readers, backward=(replace(fanout.backward[0], readers=(only,)),))

    def addends_are_added_on_every_rank(self, fanout: Fanout) -> Fanout:
        """A bias, or another addend, is read whole beside partial products."""

        def kept(delivery: Delivery) -> Delivery:
            steps = tuple(s for s in delivery.redistribution.steps if s.kind != "zero")
            return replace(delivery, redistribution=replace(delivery.redistribution, steps=steps))

        return replace(fanout, forward=tuple(map(kept, fanout.forward)))

    def the_order_of_axes_does_not_matter(self, fanout: Fanout) -> Fanout:
        """A dim over a·b is a dim over b·a: nothing has to move."""

        def still(delivery: Delivery) -> Delivery:
            moved = delivery.redistribution
            same = [frozenset(dim) for dim in moved.source.dims] == [frozenset(dim) for dim in moved.target.dims]
            steps = () if same and moved.source.partial == moved.target.partial else moved.steps
            return replace(delivery, redistribution=replace(moved, steps=steps))

        return replace(fanout, forward=tuple(map(still, fanout.forward)))

    def _raw(self, fanout: Fanout, of: Callable[[Layout, Layout], Layout]) -> Fanout:
        readers = tuple(
            replace(r, raw=of(r.layout, r.raw)) if r.raw is not None and r.node != "backward pass" else r
            for r in fanout.readers
        )
        if readers == fanout.readers:
            return fanout
        groups: dict[Layout, list[int]] = {}
        for position, reader in enumerate(readers):
            if reader.raw is not None:
                groups.setdefault(reader.raw, []).append(position)
        gradient = fanout.gradient
        assert gradient is not None
        back = tuple(
            Delivery(readers=tuple(members), redistribution=self._move(fanout, raw, gradient))
            for raw, members in groups.items()
        )
        return replace(fanout, readers=readers, backward=back)

    def _move(self, fanout: Fanout, source: Layout, target: Layout) -> Redistribution:
        return redistribute(source, target, self.mesh, shape=fanout.shape, dtype="float64")

    def _dual(self, step: Step) -> Step:
        """Return the transposed step: dims swapped where it moves a dim, and parts and wholes exchanged."""
        dims = {"dim": step.to_dim, "to_dim": step.dim} if step.to_dim >= 0 else {}
        return replace(
            step, kind=COLLECTIVES[step.kind].dual, source=step.target.adjoint, target=step.source.adjoint,
            source_shape=step.target_shape, target_shape=step.source_shape, **dims,
        )  # fmt: skip


def _with(deliveries: tuple[Delivery, ...], moved: list[Redistribution]) -> tuple[Delivery, ...]:
    return tuple(replace(d, redistribution=m) for d, m in zip(deliveries, moved, strict=True))
