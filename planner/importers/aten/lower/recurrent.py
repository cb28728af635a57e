"""Recurrent layers: one operator for each layer and direction."""

from __future__ import annotations

from collections.abc import Mapping

from .site import Held, Row, Site, UnloweredError


def _recurrent(op: str, tanh: bool = True) -> Row:
    """Return the row of a network whose layers start with a state of zeros."""

    def row(at: Site) -> list[Held]:
        if not tanh:
            raise UnloweredError("its nonlinearity is not tanh")
        x = at.x(0, "input")
        weights = at.tensors(2, "params")
        biased, layers = at.flag(3, "has_biases", True), at.integer(4, "num_layers", 1)
        share, train, both = at.real(5, "dropout", 0.0), at.flag(6, "train", False), at.flag(7, "bidirectional", False)
        first = at.flag(8, "batch_first", False)
        x = x if first else at.permuted(x, [1, 0, 2])
        each, ends = 4 if biased else 2, []
        for layer in range(layers):
            if layer and share and train:
                x = at.node("dropout", x, p=share, seed=0)
            sides = []
            for side in range(1 + both):
                place = (layer * (1 + both) + side) * each
                made = at.node("flip", x, dim=1) if side else x
                made = at.node(op, made, *weights[place : place + each])
                ends.append(at.node("select", made, dim=1, index=-1))
                sides.append(at.node("flip", made, dim=1) if side else made)
            x = at.node("concat", *sides, dim=2) if both else sides[0]
        if 2 in at.used:
            raise UnloweredError("the state of its cells at the end is asked for")
        states = at.node("stack", *ends, dim=0) if len(ends) > 1 else at.unsqueezed(ends[0], 0)
        return [x if first else at.permuted(x, [1, 0, 2]), states, states]

    return row


RECURRENT: Mapping[str, Row] = {
    "aten.lstm.input": _recurrent("lstm"),
    "aten.gru.input": _recurrent("gru"),
    "aten.rnn_tanh.input": _recurrent("rnn"),
    "aten.rnn_relu.input": _recurrent("rnn", tanh=False),
}  # fmt: skip
"""Calls of recurrent layers."""
