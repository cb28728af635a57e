"""What each axis could do at each factor of an operator, with the reason where it may not."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.mesh import Axes, DeviceMesh
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy, problems
from ..core.view import Choice


def choices(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str
) -> tuple[Choice, ...]:
    """Return a choice for every factor and axis.

    Clicking an axis that is on the factor takes it off; else it joins the factor as its minor axis, and leaves the
    factor where it was.
    """
    return tuple(
        _choice(rule, strategy, sizes, mesh, subject, factor, axis) for factor in rule.factors for axis in mesh.names
    )


def _choice(
    rule: ShardingRule, strategy: ShardStrategy, sizes: Mapping[str, int], mesh: DeviceMesh, subject: str,
    factor: str, axis: str,
) -> Choice:  # fmt: skip
    now: dict[str, Axes] = dict(strategy.factors)
    on = axis in now.get(factor, ())
    after = {f: tuple(a for a in axes if a != axis) for f, axes in now.items()}
    if not on:
        after[factor] = (*after.get(factor, ()), axis)
    changed = tuple((f, axes) for f, axes in after.items() if axes != now.get(f, ()))
    found = problems(rule, ShardStrategy.of(after, dict(strategy.kept)), sizes, mesh, subject)
    first = found[0] if found else None
    return Choice(
        factor=factor, axis=axis, on=on, legal=first is None, reason=first.message if first else "",
        remedy=first.hint if first else "", sets=changed,
    )  # fmt: skip
