"""What of the reductions of gradients hides behind backward, against a clock that runs every bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compose import evaluate, train
from planner.core.report import CostItem
from planner.cost.buckets import BucketTime
from planner.cost.overlap import hidden_reductions
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

seconds = st.floats(0.01, 100)


def exposed_by_clock(each: float, count: int, compute: float) -> float:
    """Return how long after backward the last of equal buckets is reduced, one after the other as they are ready."""
    free = 0.0
    for number in range(1, count + 1):
        free = max(free, compute * number / count) + each
    return free - compute


@given(seconds, st.integers(1, 30), seconds)
def test_equal_buckets_hide_as_a_clock_says(each: float, count: int, compute: float) -> None:
    hidden, deferred = hidden_reductions([BucketTime(seconds=each, count=count, deferred=False)], compute, 1)
    assert deferred == 0
    assert each * count - hidden == pytest.approx(exposed_by_clock(each, count, compute), rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(seconds, st.integers(1, 5), st.booleans()), max_size=6), seconds, st.integers(1, 4))
def test_never_more_than_there_is_and_never_the_last_bucket(
    buckets: list[tuple[float, int, bool]], compute: float, microbatches: int
) -> None:
    times = [BucketTime(seconds=s, count=n, deferred=d) for s, n, d in buckets]
    hidden, late = hidden_reductions(times, compute, microbatches)
    each = sum(t.seconds * t.count for t in times if not t.deferred)
    assert 0 <= hidden <= each * microbatches
    assert late >= 0
    assert hidden + late <= compute * (1 + 1e-9)
    if times:
        everything = each * microbatches + sum(t.seconds * t.count for t in times if t.deferred)
        assert everything - hidden - late >= times[-1].seconds * (1 - 1e-9)


def test_every_microbatch_hides_its_own_and_the_last_one_what_is_deferred() -> None:
    each, late = (BucketTime(seconds=1.0, count=4, deferred=deferred) for deferred in (False, True))
    assert hidden_reductions([each], 4 * 100.0, 4) == (4 * 3.0, 0.0)
    assert hidden_reductions([late], 4 * 100.0, 4) == (0.0, 3.0)
    assert hidden_reductions([each, late], 4 * 100.0, 4) == (4 * 3.0, 4.0)


GRADIENTS = "exposed gradient communication"


def exposed(plan: Plan) -> CostItem:
    return evaluate(plan).step_time.child(GRADIENTS)


def large(**decision: object) -> Plan:
    graph = tiny_graph(num_hidden_layers=8, hidden_size=512, intermediate_size=2048)
    plan = tiny_plan("dp:8", ("data_parallel", "dp"), graph=graph)
    return plan.precise("bf16").batch(global_batch=512, seq=512, microbatches=4).gradients(**decision)  # type: ignore[arg-type]


def test_a_fused_collective_pays_one_latency() -> None:
    alone, fused = large(overlap=True), large(fusion="auto", overlap=True)
    one, several = (exposed(plan).child("communication").value for plan in (fused, alone))
    assert one < several
    rows = [row for row in evaluate(fused).collectives if row.gradients]
    assert sum(row.count for row in rows) == 4 * sum(bucket.count for bucket in train(fused).buckets)
    assert {row.phase for row in rows} == {"backward"}


def test_overlap_hides_all_but_the_last_bucket_and_nothing_else_changes() -> None:
    waits, beside = evaluate(large(fusion="size", bucket_bytes=1 << 20)), evaluate(
        large(fusion="size", bucket_bytes=1 << 20, overlap=True)
    )  # fmt: skip
    assert waits.collectives == beside.collectives
    assert waits.interval == beside.interval
    last = [row for row in beside.collectives if row.gradients][-1]
    assert beside.step_time.child(GRADIENTS).value == pytest.approx(4 * last.seconds)
    assert beside.interval[0] <= beside.step_time.value < waits.step_time.value <= waits.interval[1] * (1 + 1e-12)


def test_one_bucket_of_everything_hides_nothing() -> None:
    plan = large(fusion="index", indices=(73,), overlap=True)
    assert len(train(plan).buckets) == 2
    hidden = exposed(plan).child("hidden, backward").value
    whole = exposed(plan).child("communication").value
    assert 0 < -hidden < 0.5 * whole


def test_what_compression_keeps_lies_in_memory() -> None:
    plan = large(fusion="auto")
    before = evaluate(plan).memory.child("gradients").value
    after = evaluate(plan.gradients(compression="one_bit")).memory.child("gradients").value
    # As much again as the gradients, and an eighth of it for what is passed on.
    assert after - before == pytest.approx(before * 9 / 8, rel=0.01)
    assert evaluate(plan.precise("fp32").gradients(compression="bf16")).memory.child("gradients").value == 2 * before
