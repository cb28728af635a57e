"""Which operators, parameters and layers a decision's target names."""

import pytest

from planner.assign.target import EVERYWHERE, span

GATE = "model.layers.*.mlp.gate_proj"
ADD = "model.layers.*/residual_mlp"
WEIGHT = "model.layers.*.self_attn.q_proj.weight"


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
    ],
)
def test_span(target: str, name: str, found: tuple[int, int] | None) -> None:
    assert span(target, name) == found


def test_a_range_that_runs_backwards_names_nothing() -> None:
    start, stop = span("layers.5-2.mlp", GATE) or (0, 0)
    assert range(start, stop) == range(5, 3)
