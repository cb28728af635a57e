"""Recurrent layers over whole sequences, of one direction, from zero state: one row each.

Only the batch may be sharded: a step needs the one before, and every gate the whole input and state.
"""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, OpDef, Shape, shapes_of

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Rows of the weights for each unit."""
_BLOCKED = {
    "seq": "a step needs the state of the step before",
    "i": "every gate needs the whole input",
    "h": "every gate needs the whole state",
    "q": "the gates of a unit are taken together",
}


def _infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, _input, state = operands[:3]
    return (TensorMeta((*x.shape[:2], state.shape[1]), x.dtype),)


def _operator(name: str, summary: str) -> OpDef:
    gates = _GATES[name]

    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
        biases = ", (q u)" * (len(operands) - 3)
        return ShardingRule.parse(
            f"batch seq i, (q u) i, (q u) h{biases} -> batch seq u", shapes=shapes_of(operands + results),
            sizes={"q": gates}, blocked=_BLOCKED | {"u": _BLOCKED["h"]},
        )  # fmt: skip

    def flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
        (batch, seq, width), state = operands[0], operands[2][1]
        return 2.0 * batch * seq * gates * state * (width + state)

    def start(operands: tuple[Shape, ...]) -> float:
        """Return what the gradient of the state before the first step would take: it is zero, and needs none."""
        return 2.0 * operands[0][0] * gates * operands[2][1] ** 2

    def reserve(operands: tuple[Shape, ...], element_bytes: int) -> float:
        """Return the bytes of the gates and the state of every step."""
        return float(element_bytes * (gates + 2) * prod(operands[0][:2]) * operands[2][1])

    return OpDef(
        name=name,
        summary=summary,
        operands=("x", "weight_input", "weight_state", "bias_input?", "bias_state?"),
        infer=_infer,
        rule=rule,
        flops=flops,
        backward_flops=lambda operands, results: 2 * flops(operands, results) - start(operands),
        saved=("x", "weight_input", "weight_state", "bias_input", "bias_state", "result"),
        extra_saved=reserve,
        differentiable=("x", "weight_input", "weight_state", "bias_input", "bias_state"),
        matmul=True,
        torch=lambda local: f'ops.recurrent("{name}", {", ".join(local.arguments)})',
    )


RECURRENT = (
    _operator("lstm", "long short-term memory: states after every step"),
    _operator("gru", "gated recurrent unit: states after every step"),
    _operator("rnn", "tanh of input and state: states after every step"),
)
