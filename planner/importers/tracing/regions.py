"""Puts the calls of regions, such as `with torch.no_grad():`, in the place of the call that stands for each."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

SET_GRAD, AUTOCAST = "wrap_with_set_grad_enabled", "wrap_with_autocast"


def inline_regions(module: GraphModule) -> None:
    """Replace every region of a graph by its calls; what leaves one without gradients is detached.

    Element types within a region of autocast are those of the traced values.
    """
    for node in list(module.graph.nodes):
        name = str(node.target)
        if node.op == "call_function" and name in (SET_GRAD, AUTOCAST):
            # An autocast has device, element type, whether it is on, and whether it caches before the region.
            place = 1 if name == SET_GRAD else 4
            _inline(module, node, place, detached=name == SET_GRAD and node.args[0] is False)


def _inline(module: GraphModule, node: Node, place: int, *, detached: bool) -> None:
    inner, graph = node.args[place], module.graph
    assert isinstance(inner, Node)
    region = module.get_submodule(str(inner.target))
    assert isinstance(region, GraphModule)
    inline_regions(region)
    given = iter(node.args[place + 1 :])
    values: dict[Node, object] = {}
    with graph.inserting_before(node):
        for part in region.graph.nodes:
            if part.op == "placeholder":
                values[part] = next(given)
            elif part.op == "output":
                made = part.args[0]
            else:
                values[part] = graph.node_copy(part, lambda one: values[one])  # type: ignore[arg-type,return-value]
        several = isinstance(made, tuple | list)
        results = [values[part] if isinstance(part, Node) else part for part in (made if several else (made,))]
        if detached:
            results = [_detached(module, one) for one in results]
    for user in list(node.users):
        if several and user.target is operator.getitem:
            user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index,arg-type]
            graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(results[0])  # type: ignore[arg-type]
    graph.erase_node(node)


def _detached(module: GraphModule, value: object) -> object:
    held = value.meta.get("val") if isinstance(value, Node) else None
    if not isinstance(value, Node) or not isinstance(held, torch.Tensor) or not held.is_floating_point():
        return value
    made = module.graph.call_function(torch.ops.aten.detach.default, (value,))
    made.meta = dict(value.meta)
    return made
