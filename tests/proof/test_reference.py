"""What a proof compares with: one microbatch where that is the same, else the microbatches of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from planner.core.graph import ModelGraph
from planner.proof import Proof, unsharded
from planner.proof.reference import adds_up
from tests.assign.test_samples import vision
from tests.tiny import inserted, tiny_gpt2, tiny_graph, tiny_plan

from .small_models import encoder, images, model
from .test_presets import assert_proven


def doubled_loss() -> ModelGraph:
    """Return a decoder whose loss is twice the cross-entropy."""
    graph = inserted(tiny_graph(), {"loss": ("loss/twice", "scale", {"factor": 2.0})})
    return replace(graph, root=replace(graph.root, outputs=("loss/twice",)))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [(tiny_graph(), True), (tiny_gpt2(), True), (vision(), True), (model("images", images), False),
     (model("encoder", encoder), False), (doubled_loss(), False)],
    ids=["llama", "gpt2", "vision", "batch norm", "unknown", "loss of a loss"],
)  # fmt: skip
def test_which_losses_of_microbatches_add_up(graph: ModelGraph, expected: bool) -> None:
    assert adds_up(graph) is expected


def test_a_batch_norm_is_compared_with_one_of_the_same_microbatches(prove_here: Callable[..., Proof]) -> None:
    plan = tiny_plan("dp:2", microbatches=2, graph=model("images", images)).preset("data_parallel", axis="dp")
    assert unsharded(plan).decisions.microbatches == 2
    assert_proven(prove_here(plan))


def test_microbatches_add_up_to_the_batch(prove_here: Callable[..., Proof]) -> None:
    plan = tiny_plan("dp:2", microbatches=2).preset("data_parallel", axis="dp")
    assert unsharded(plan).decisions.microbatches == 1
    assert_proven(prove_here(plan))
