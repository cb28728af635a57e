"""How the parts of a step add up, by hand."""

import pytest

from planner.cost.step_time import StepSeconds

PARTS = StepSeconds(
    forward=10.0,
    backward=20.0,
    activations_forward=1.0,
    activations_backward=2.0,
    parameters_forward=14.0,
    parameters_backward=5.0,
    update=3.0,
    optimizer=0.5,
)


def test_parameters_hide_behind_the_computation_of_their_own_phase():
    # Forward: 4 of 14 stick out; backward: 5 are hidden; nothing hides the update.
    assert (PARTS.hidden_forward, PARTS.hidden_backward) == (10.0, 5.0)
    assert PARTS.exposed == pytest.approx(1 + 2 + 4 + 3)
    assert PARTS.estimate == pytest.approx(30 + 7 + 3 + 0.5)


def test_the_interval_is_all_hidden_and_nothing_hidden():
    assert PARTS.interval == (30.5, 30 + 25 + 0.5)
