"""A strategy: which mesh axes shard which factors of an operator, and which axes it keeps Partial.

Operand and result layouts follow from rule and strategy, and nothing else decides legality. `problems` returns every
reason against a strategy, each naming operator, factor, numbers and a remedy. A size that its axes do not divide is no
reason, unless the factor is marked `even` or lies in a merged dim whose chunks would be others (`core.merged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import Diagnostic
from .chunk import largest, lengths
from .layout import Layout
from .merged import Mismatch, mismatch
from .mesh import Axes, DeviceMesh
from .rule import Factors, ShardingRule, TensorFactors


@dataclass(frozen=True, slots=True)
class ShardStrategy:
    """Factors → axes, plus axes kept Partial.

    Parameters
    ----------
    factors
        Pairs (factor, axes major to minor), sorted by factor, none empty.
    kept
        Pairs (axis, operand position per term): the result stays Partial over the axis, and in each term that operand
        carries it.
    """

    factors: tuple[tuple[str, Axes], ...] = ()
    kept: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @staticmethod
    def of(factors: Mapping[str, Axes], kept: Mapping[str, tuple[int, ...]] | None = None) -> ShardStrategy:
        """Build the canonical strategy from mappings."""
        return ShardStrategy(
            tuple(sorted((f, tuple(axes)) for f, axes in factors.items() if axes)),
            tuple(sorted((kept or {}).items())),
        )

    def axes(self, factor: str) -> Axes:
        """Return the axes on a factor, none if it is whole."""
        return dict(self.factors).get(factor, ())

    def __str__(self) -> str:
        parts = [f"{factor}={'·'.join(axes)}" for factor, axes in self.factors]
        parts += [f"+{axis}" for axis, _ in self.kept]
        return " ".join(parts) or "replicated"


def layouts(rule: ShardingRule, strategy: ShardStrategy) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """Return operand and result layouts of a legal strategy.

    Each reduction axis makes the results Partial. A term without that reduction factor must then carry the axis as
    Partial itself; it does so in its only operand (`reference`: rule 5 of `docs/concepts/rules.md`).
    """
    partial: dict[str, tuple[int, ...]] = dict(strategy.kept)
    for factor in rule.reductions:
        for axis in strategy.axes(factor):
            carriers = [term[0] for term in rule.terms if not _has(rule, term, factor)]
            partial[axis] = tuple(carriers)
    operands = tuple(
        Layout(_dims(tensor, strategy), tuple(a for a, carriers in partial.items() if i in carriers))
        for i, tensor in enumerate(rule.operands)
    )
    results = tuple(Layout(_dims(tensor, strategy), tuple(partial), rule.reduce) for tensor in rule.results)
    return operands, results


def problems(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str
) -> tuple[Diagnostic, ...]:
    """Return every reason why `strategy` is not legal for `rule`; empty if it is.

    Parameters
    ----------
    sizes
        Integer size of every factor.
    subject
        Name of the node, for the messages.
    """
    return tuple(_problems(rule, strategy, sizes, mesh, subject))


def _problems(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str
) -> Iterator[Diagnostic]:
    owner: dict[str, str] = {}
    uses = [*strategy.factors, *(("the kept partial sum", (axis,)) for axis, _ in strategy.kept)]
    for factor, axes in uses:
        for axis in axes:
            if axis not in mesh.names:
                yield _error("mesh.axis-unknown", subject, f"{subject}: the mesh {mesh} has no axis {axis!r}.",
                             f"Use one of: {', '.join(mesh.names)}.")  # fmt: skip
                return
            if axis in owner:
                yield _error("layout.axis-reused", subject,
                             f"{subject}: axis {axis!r} is used for {owner[axis]} and for {factor}; "
                             "an operator may use an axis once.", f"Take {axis!r} from one of the two.")  # fmt: skip
            owner[axis] = factor
    blocked = dict(rule.blocked)
    for factor, axes in strategy.factors:
        if factor not in sizes:
            yield _error("rule.factor-unknown", subject, f"{subject} has no factor {factor!r}.",
                         f"Its factors are {', '.join(rule.factors)}.")  # fmt: skip
            continue
        if factor in blocked:
            yield _error("rule.factor-blocked", subject,
                         f"{subject}: factor {factor} may not be sharded: {blocked[factor]}.",
                         f"Take {'·'.join(axes)} from {factor}.")  # fmt: skip
        count = mesh.size_of(axes)
        if factor in rule.even and sizes[factor] % count:
            divisors = [d for d in range(1, min(sizes[factor], 4096) + 1) if sizes[factor] % d == 0]
            near = [d for d in divisors if d <= count][-3:]
            yield _error("rule.factor-even", subject,
                         f"{subject}: factor {factor} of size {sizes[factor]} over {'·'.join(axes)} ({count} parts) "
                         f"must get equal parts: {sizes[factor]} % {count} = {sizes[factor] % count}.",
                         f"Use a degree that divides {sizes[factor]}, e.g. {', '.join(map(str, near))}."
                         if len(axes) == 1 else
                         f"Take {' or '.join(axes)} from {factor}: its axes must multiply to a divisor of "
                         f"{sizes[factor]}.")  # fmt: skip
    yield from _merged_dims(rule, strategy, sizes, mesh, subject)
    yield from _least(rule, strategy, sizes, mesh, subject)
    yield from _kept(rule, strategy, subject)


def fits(dim: Factors, axes: Mapping[str, Axes], sizes: Mapping[str, int], mesh: DeviceMesh) -> bool:
    """Return whether a tensor dim of these factors can lie over their axes (`core.merged`)."""
    return len(dim) == 1 or _mismatch(dim, axes, sizes, mesh) is None


def _mismatch(dim: Factors, axes: Mapping[str, Axes], sizes: Mapping[str, int], mesh: DeviceMesh) -> Mismatch | None:
    cuts = tuple(tuple(mesh.size(axis) for axis in axes.get(factor, ())) for factor in dim)
    return mismatch(tuple(sizes[factor] for factor in dim), cuts)


def _merged_dims(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str
) -> Iterator[Diagnostic]:
    """Refuse factors of a merged dim whose shards would have the right shape and silently wrong contents."""
    axes = dict(strategy.factors)
    for dim in dict.fromkeys(dim for tensor in (*rule.operands, *rule.results) for dim in tensor if len(dim) > 1):
        found = _mismatch(dim, axes, sizes, mesh)
        counts = {factor: mesh.size_of(axes.get(factor, ())) for factor in dim}
        if found is None or any(factor in rule.even and sizes[factor] % counts[factor] for factor in dim):
            continue
        left = {factor: largest(sizes[factor], axes.get(factor, ()), mesh) for factor in dim}
        for i, minor in enumerate(dim[1:], start=1):
            whole = [factor for factor in dim[:i] if left[factor] > 1]
            if counts[minor] > 1 and whole:
                yield _error("rule.minor-factor", subject,
                             f"{subject}: {minor} is the minor part of the dim ({' '.join(dim)}); sharding it "
                             f"needs {whole[0]} down to 1 on each device, but {left[whole[0]]} are left.",
                             f"Shard {whole[0]} first.")  # fmt: skip
                return
        cut = next(factor for factor in dim if sizes[factor] % counts[factor])
        at = "·".join(axis for factor in dim for axis in axes.get(factor, ()))
        part = ", ".join(f"{f} {start}:{stop}" for f, (start, stop) in zip(dim, found.factors, strict=True))
        yield _error("rule.merged-uneven", subject,
                     f"{subject}: {cut} of size {sizes[cut]} is not cut evenly by {'·'.join(axes[cut])}, and is part "
                     f"of the dim ({' '.join(dim)}): the rank at place {found.position} along {at} would compute "
                     f"{part} and hold {found.held[0]}:{found.held[1]} of the dim, which are other elements.",
                     f"Shard {cut} over axes that multiply to a divisor of {sizes[cut]}.")  # fmt: skip
        return


def _least(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str
) -> Iterator[Diagnostic]:
    """Refuse shards that are smaller than what their neighbours need of them."""
    for factor, least in rule.least:
        count = mesh.size_of(strategy.axes(factor))
        left = min(lengths(sizes[factor], strategy.axes(factor), mesh))
        if count > 1 and left < least:
            yield _error("rule.factor-thin", subject,
                         f"{subject}: factor {factor} of size {sizes[factor]} in {count} parts leaves "
                         f"{left} to a device, but its neighbours read {least} of them.",
                         f"Shard {factor} over at most {max(1, sizes[factor] // least)} devices.")  # fmt: skip


def _kept(rule: ShardingRule, strategy: ShardStrategy, subject: str) -> Iterator[Diagnostic]:
    for axis, carriers in strategy.kept:
        if not rule.terms or rule.reduce != "sum":
            yield _error("rule.partial-nonlinear", subject,
                         f"{subject} is nonlinear in all its operands, so its result can't stay Partial over {axis}.",
                         f"Drop the kept axis {axis}.")  # fmt: skip
        elif len(carriers) != len(rule.terms) or any(
            c not in term for c, term in zip(carriers, rule.terms, strict=False)
        ):
            yield _error("rule.partial-carrier", subject,
                         f"{subject}: one operand of each of its {len(rule.terms)} terms must carry the partial sum "
                         f"over {axis}; got operands {carriers}.", "Name one operand a term.")  # fmt: skip
    for factor in rule.reductions:
        for axis in strategy.axes(factor):
            for term in rule.terms:
                if not _has(rule, term, factor) and len(term) > 1:
                    yield _error("rule.partial-carrier", subject,
                                 f"{subject}: a product term without factor {factor} must be Partial over {axis}, "
                                 "and it is not said by which operand.", f"Take {axis} from {factor}.")  # fmt: skip


def _has(rule: ShardingRule, term: tuple[int, ...], factor: str) -> bool:
    return any(factor in rule.factors_of(i) for i in term)


def _dims(tensor: TensorFactors, strategy: ShardStrategy) -> tuple[Axes, ...]:
    return tuple(tuple(axis for factor in dim for axis in strategy.axes(factor)) for dim in tensor)


def _error(code: str, subject: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code=code, subject=subject, message=message, hint=hint)
