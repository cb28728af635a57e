"""What parameters start with when a plan is trained from nothing: a program knows shapes, not initial values.

Scales of norms start at one, biases at zero, all others from a normal distribution. What the loss has no gradient of,
such as a parameter that nothing reads or that only picks indices, is not trained: it is `frozen`.
"""

from __future__ import annotations

from dataclasses import replace

from ....core.graph import Block, Node
from ....ops import OPS

_SCALED = frozenset({"rms_norm", "layer_norm", "batch_norm", "group_norm"})


def with_initial(block: Block, frozen: frozenset[str]) -> Block:
    """Return a block whose parameters have their kinds of initial values.

    Parameters
    ----------
    frozen
        Parameters that the model does not train.
    """
    kinds = {p.name: "zeros" for p in block.parameters if p.name.rpartition(".")[2] == "bias"}
    for node in block.nodes:
        kinds |= dict.fromkeys(_scales(node), "ones")
    trained = _with_gradient(block) - frozen
    kinds |= {p.name: "frozen" for p in block.parameters if p.name not in trained and p.initial != "given"}
    parameters = tuple(replace(p, initial=kinds.get(p.name, p.initial)) for p in block.parameters)
    return replace(block, parameters=parameters)


def _with_gradient(block: Block) -> frozenset[str]:
    """Return the values that the loss has a gradient of."""
    wanted = set(block.outputs[:1])
    for node in reversed(block.nodes):
        if any(value.name in wanted for value in node.results):
            definition = OPS[node.op]
            names = zip(definition.operand_names, node.operands, strict=False)
            wanted |= {operand for name, operand in names if name in definition.differentiable}
    return frozenset(wanted)


def _scales(node: Node) -> tuple[str, ...]:
    return node.operands[1:2] if node.op in _SCALED else ()
