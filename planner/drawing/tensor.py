"""One tensor of a plan's view, by the ids that the view gives."""

from __future__ import annotations

from ..core.layout import Layout
from ..core.view import PlanView
from ..errors import PlannerError


def tensor_of(view: PlanView, node: str, slot: str = "") -> tuple[Layout, tuple[int, ...]]:
    """Return layout and shape of an operand or result of a node, or of the value of an edge.

    Parameters
    ----------
    node
        Id of a node with a slot, or of an edge without.
    slot
        Name of the node's operand or result, as `TensorView.slot`.

    Raises
    ------
    PlannerError
        `plan.node-unknown`, `plan.slot-unknown`.
    """
    if slot:
        tensors = [tensor for n in view.nodes if n.id == node for tensor in (*n.operands, *n.results)]
    else:
        tensors = [edge.tensor for edge in view.edges if edge.id == node]
    if not tensors:
        what = "node" if slot else "edge"
        raise PlannerError("plan.node-unknown", f"The plan has no {what} {node!r}.", "Load the plan's view again.")
    for tensor in tensors:
        if not slot or tensor.slot == slot:
            return Layout.parse(tensor.layout), tuple(cell.total for cell in tensor.cells)
    raise PlannerError(
        "plan.slot-unknown",
        f"{node} has no slot {slot!r}.",
        f"Use one of: {', '.join(tensor.slot for tensor in tensors)}.",
        subject=node,
    )
