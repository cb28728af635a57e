"""All pairs of forward and backward, each as the result of a small graph, and the table that the documentation shows.

Per axis a value is replicated (R), sharded (S) or partial (P). So is an operand, and a replicated one is told apart by
whether its operator uses the axis otherwise. S to S is one pair on the same dim and another between two dims: thirteen.
"""

from collections.abc import Mapping

from planner.core.assignment import Fanout, Reader
from planner.core.layout import Layout

from .chain import chain, fanout

Operator = tuple[Mapping[str, str], Mapping[str, tuple[int, ...]]]

WHOLE: Operator = ({}, {})
BATCH: Operator = ({"batch": "t"}, {})
SEQ: Operator = ({"seq": "t"}, {})
COLUMN: Operator = ({"n": "t"}, {})
ROW: Operator = ({"k": "t"}, {})
KEPT: Operator = ({}, {"t": (0, 2)})
R, P, S0, S1 = "[-, -, -]", "[-, -, -] +t", "[t, -, -]", "[-, t, -]"

ROWS: dict[str, tuple[Operator, Operator, str, str]] = {
    "R→R, unused by the reader": (WHOLE, WHOLE, f"{R} → {R}: none", f"{R} → {R}: none"),
    "R→R, reader sharded": (WHOLE, COLUMN, f"{R} → {R}: none", f"{P} → {R}: all_reduce"),
    "R→S": (WHOLE, BATCH, f"{R} → {S0}: slice", f"{S0} → {R}: all_gather"),
    "S→S": (BATCH, BATCH, f"{S0} → {S0}: none", f"{S0} → {S0}: none"),
    "S→S'": (BATCH, SEQ, f"{S0} → {S1}: all_to_all", f"{S1} → {S0}: all_to_all"),
    "S→R, reader sharded": (SEQ, COLUMN, f"{S1} → {R}: all_gather", f"{P} → {S1}: reduce_scatter"),
    "S→R, reader replicated": (SEQ, WHOLE, f"{S1} → {R}: all_gather", f"{R} → {S1}: slice"),
    "P→R, reader replicated": (ROW, WHOLE, f"{P} → {R}: all_reduce", f"{R} → {R}: none"),
    "P→R, reader uses the axis": (ROW, COLUMN, f"{P} → {R}: all_reduce", f"{P} → {R}: all_reduce"),
    "P→S": (ROW, BATCH, f"{P} → {S0}: reduce_scatter", f"{S0} → {R}: all_gather"),
    "P→P": (ROW, KEPT, f"{P} → {P}: none", f"{R} → {R}: none"),
    "R→P": (WHOLE, KEPT, f"{R} → {P}: zero", f"{R} → {R}: none"),
    "S→P": (BATCH, KEPT, f"{S0} → {P}: pad", f"{R} → {S0}: slice"),
}

NOTES: dict[str, tuple[str, str]] = {
    "R→R, unused by the reader": ("the reader does not use the axis", ""),
    "R→R, reader sharded": (
        "the reader uses the axis for another operand",
        "Megatron's f; weights in data parallelism",
    ),
    "R→S": ("", ""),
    "S→S": ("on the same dim", ""),
    "S→S'": ("from dim to dim", "Ulysses"),
    "S→R, reader sharded": ("the reader uses the axis for another operand", "sequence parallelism; ZeRO-3"),
    "S→R, reader replicated": ("the reader does not use the axis", ""),
    "P→R, reader replicated": ("the reader does not use the axis", "Megatron's g"),
    "P→R, reader uses the axis": ("the reader uses the axis for another operand", "f behind g"),
    "P→S": ("", "the way out of a tensor-parallel region"),
    "P→P": ("the sum is kept", ""),
    "R→P": ("", "a bias beside a sharded contraction"),
    "S→P": ("", ""),
}
"""When a pair occurs, and what it is known as."""


def table() -> str:
    """Return the table of pairs as Markdown, from what the planner gives."""
    lines = ["| value → operand | forward | raw → adjoint | backward | when | known as |", "|---|---|---|---|---|---|"]
    for name, (first, second, _, _) in ROWS.items():
        operator: Operator = (first[0], {axis: (0,) for axis in first[1]})
        value = fanout(chain("t:2", a=operator, b0=second), "a")
        forward, backward = value.forward[0].redistribution, value.backward[0].redistribution
        cells = [
            _arrow(forward.source, forward.target), _kinds(forward.steps),
            _arrow(backward.source, backward.target), _kinds(backward.steps), *NOTES[name],
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |".replace("  |", " |"))
    return "\n".join(lines) + "\n"


def keys(value: Fanout, axis: str) -> set[tuple[str, str]]:
    """Return, for every reader that gives a gradient, the pair that it is of on one axis."""
    assert value.gradient is not None
    return {
        (_arrow(value.source, r.layout, axis), _arrow(_raw(r), value.gradient, axis))
        for r in value.readers
        if r.raw is not None
    }


def _raw(reader: Reader) -> Layout:
    assert reader.raw is not None
    return reader.raw


def _arrow(source: Layout, target: Layout, axis: str = "t") -> str:
    """Return e.g. `S→R`; a shard on another dim is `S'`."""
    places = [next((i for i, dim in enumerate(x.dims) if axis in dim), None) for x in (source, target)]
    states = [
        "S" if place is not None else "P" if axis in x.partial else "R"
        for x, place in zip((source, target), places, strict=True)
    ]
    moved = states == ["S", "S"] and places[0] != places[1]
    return f"{states[0]}→{states[1]}{chr(39) * moved}"


def _kinds(steps: tuple) -> str:  # type: ignore[type-arg]
    return " ".join(step.kind.replace("_", "-") for step in steps) or "nothing"
