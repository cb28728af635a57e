"""What is said about sizes that their axes do not divide."""

from collections import Counter

import numpy as np
import pytest

from planner.assign import assign
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import Diagnostic
from planner.plan import Plan
from tests.properties.strategies import shard
from tests.tiny import tiny_graph, tiny_plan


def findings(plan: Plan) -> list[Diagnostic]:
    made = assign(plan.graph, plan.decisions)
    return [d for d in made.diagnostics if d.code == "plan.uneven"]


def test_nothing_is_said_about_equal_parts() -> None:
    assert findings(tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp"))) == []
    assert findings(tiny_plan("dp:1,tp:1", ("zero3", "dp"), ("megatron", "tp"))) == []


def test_one_finding_stands_for_all_that_cut_a_size_alike() -> None:
    plan = tiny_plan("tp:4", graph=tiny_graph(vocab_size=50257)).shard("embed_tokens", {"vocab": "tp"})
    plan = plan.shard("lm_head", {"n": "tp"})
    (found,) = findings(plan)
    assert found.severity == "note"
    assert found.subject == "model.embed_tokens"
    # The table, the head, the loss, and the parameters of the first two.
    assert found.message.startswith(
        "model.embed_tokens, lm_head and 3 more: size 50257 over tp is cut into 4 unequal parts. The largest is 12565, "
    )
    assert "mean of 12564.25;" in found.message
    assert found.hint == "Sizes such as 50260 have equal parts."


def test_far_from_equal_parts_are_a_warning() -> None:
    (found,) = findings(tiny_plan("dp:3").batch(global_batch=4, seq=8, microbatches=1).shard("*", {"batch": "dp"}))
    assert found.severity == "warning"
    assert "size 4 over dp is cut into 3 unequal parts; 1 of them holds nothing" in found.message
    assert "The largest is 2, 1.5 times the mean of 1.33;" in found.message
    assert found.hint == "Sizes such as 6 have equal parts."


def test_axes_of_size_1_cut_nothing() -> None:
    plan = tiny_plan("a:1,dp:3").batch(global_batch=3, seq=8, microbatches=1)
    assert findings(plan.shard("*", {"batch": ("a", "dp")})) == []
    (found,) = findings(plan.shard("*", {"seq": ("a", "dp")}))
    assert "over dp is cut into 3" in found.message


@pytest.mark.parametrize(("size", "axes"), [(10, "a b"), (10, "c"), (7, "a c"), (1, "c"), (21, "b a"), (9, "a b c")])
def test_parts_are_counted_as_they_are_cut(size: int, axes: str) -> None:
    mesh = DeviceMesh.parse("a:2,b:4,c:8")
    names = tuple(axes.split())
    plan = tiny_plan("a:2,b:4,c:8").batch(global_batch=8, seq=size, microbatches=1)
    (found,) = findings(plan.shard("residual_mlp", {"seq": names}))
    held = Counter(len(shard(np.arange(size), Layout((names,)), mesh, rank)) for rank in mesh.group(names))
    assert f"{mesh.size_of(names)} unequal parts" in found.message
    assert f"The largest is {max(held)}, " in found.message
    assert (f"; {held[0]} of them hold" in found.message) == (held[0] > 0)
