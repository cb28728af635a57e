"""Which operators, parameters and layers a decision's target names."""

import pytest

from planner.assign.target import EVERYWHERE, span

GATE = "model.layers.*.mlp.gate_proj"
ADD = "model.layers.*/residual_mlp"
WEIGHT = "model.layers.*.self_attn.q_proj.weight"
SOME = "model.layers.3-60.mlp.gate"
EVEN, ODD = "model.layers.0-22+2.self_attn.q_proj", "model.layers.1-23+2.self_attn.q_proj"
ALONE = "model.layers.2.mlp.gate"


@pytest.mark.parametrize(
    ("target", "name", "found"),
    [
        ("layers.*.mlp.gate_proj", GATE, EVERYWHERE),
        ("gate_proj", GATE, EVERYWHERE),
        ("mlp.gate_proj|up_proj", GATE, EVERYWHERE),
        ("mlp.*_proj", GATE, EVERYWHERE),
        ("*", GATE, EVERYWHERE),
        ("layers.3.mlp.gate_proj", GATE, (3, 4)),
        ("layers.2-5.mlp", GATE, (2, 6)),
        ("layers.0", ADD, (0, 1)),
        ("residual_mlp", ADD, EVERYWHERE),
        ("layers.*.residual_mlp", ADD, EVERYWHERE),
        ("q_proj.weight", WEIGHT, EVERYWHERE),
        ("q_proj|k_proj.weight|bias", WEIGHT, EVERYWHERE),
        ("proj", GATE, None),
        ("gate_proj.mlp", GATE, None),
        ("mlp.gate_proj.weight", GATE, None),
        ("layers.x.mlp", GATE, None),
        ("layers.3-.mlp", GATE, None),
        ("layers.**.mlp", GATE, None),
        ("Gate_proj", GATE, None),
        ("", GATE, None),
        ("layers.*.mlp", SOME, EVERYWHERE),
        ("layers.3-60.mlp.gate", SOME, (0, 58)),
        ("layers.5.mlp", SOME, (2, 3)),
        ("layers.0-10", SOME, (0, 8)),
        ("layers.60-80", SOME, (57, 58)),
        ("layers.0-2", SOME, None),
        ("layers.61", SOME, None),
        ("layers.0-22+2.self_attn", EVEN, (0, 12)),
        ("layers.0-22+2.self_attn", ODD, None),
        ("layers.0-11", EVEN, (0, 6)),
        ("layers.0-11", ODD, (0, 6)),
        ("layers.5-5", ODD, (2, 3)),
        ("layers.5", EVEN, None),
        ("layers.0-60+2", SOME, None),
        ("layers.0-20+4", EVEN, None),
        ("layers.0-4+2", GATE, None),
        ("layers.2", ALONE, EVERYWHERE),
        ("layers.0-5.mlp", ALONE, EVERYWHERE),
        ("layers.0-4+2", ALONE, EVERYWHERE),
        ("layers.1-5+2", ALONE, None),
        ("layers.3-60", ALONE, None),
    ],
)
def test_span(target: str, name: str, found: tuple[int, int] | None) -> None:
    assert span(target, name) == found


def test_a_range_that_runs_backwards_names_nothing() -> None:
    start, stop = span("layers.5-2.mlp", GATE) or (0, 0)
    assert range(start, stop) == range(5, 3)
