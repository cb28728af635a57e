"""Layout of the gradient that an operator's local backward hands to an operand: one rule for all operators.

Per mesh axis: operand sharded → sharded alike; operand Partial → Replicate; operand Replicate → Partial if the result
is sharded or Partial there, else Replicate. Settled by experiment; `docs/concepts/gradients.md` tells why the simpler
rules that come to mind are wrong.
"""

from __future__ import annotations

from ..errors import RuleError
from .layout import Layout


def raw_layout(operand: Layout, results: tuple[Layout, ...], subject: str) -> Layout:
    """Return the raw gradient layout of an operand.

    Parameters
    ----------
    operand
        Layout in which the operator reads the operand.
    results
        Layouts of the operator's differentiable results.
    subject
        Name of the node, for the message.

    Raises
    ------
    RuleError
        `rule.results-disagree` when results differ in which axes they use, `rule.partial-gradient` when one is Partial
        by another reduction than the sum.
    """
    for layout in (operand, *results):
        if layout.reduce != "sum":
            raise RuleError(
                "rule.partial-gradient",
                f"{subject}: no gradient passes through {layout}: its summands are no shares of the value.",
                f"Take {'·'.join(layout.partial)} from the dim that is reduced.",
                subject=subject,
            )
    used = {layout.used for layout in results}
    if len(used) > 1:
        raise RuleError(
            "rule.results-disagree",
            f"{subject}: its results {' and '.join(map(str, results))} are replicated over different axes.",
            "Give its results the same sharded axes.",
            subject=subject,
        )
    (axes,) = used
    return Layout(operand.dims, tuple(axes - operand.used))
