"""Every schedule that torch has gives torch's order, action for action."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from planner.schedules import SCHEDULES, ScheduleDef
from planner.schedules.definition import Pipeline
from planner.schedules.text import write_cell

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

WITH_TORCH = [definition for definition in SCHEDULES.values() if definition.torch]


def _pipelines(definition: ScheduleDef) -> Iterator[Pipeline]:
    for ranks in (1, 2, 3, 4, 8):
        for per_rank in (definition.per_rank,) if definition.per_rank else (1, 2, 3):
            for micros in range(1, 26):
                yield Pipeline(ranks=ranks, per_rank=per_rank, microbatches=micros)


def _torch_order(name: str, pipeline: Pipeline, rank: int) -> list[str]:
    """Ask a schedule of torch that was never given stages for the order that it works out itself."""
    made: Any = object.__new__(getattr(schedules, name))
    made.pp_group_size, made.rank = pipeline.ranks, rank
    made._n_microbatches = pipeline.microbatches
    made._num_stages = made.num_stages = pipeline.parts
    made._stages, made.n_local_stages = [None] * pipeline.per_rank, pipeline.per_rank
    made.number_of_rounds = max(1, pipeline.microbatches // pipeline.ranks)
    made.microbatches_per_round = pipeline.microbatches // made.number_of_rounds
    return [str(action) for action in made._calculate_single_rank_operations(rank) if action is not None]


def _executed(name: str, pipeline: Pipeline, rank: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a schedule of one stage a rank on a stage that only writes down what is asked of it."""
    asked: list[str] = []
    stage = SimpleNamespace(
        stage_index=rank,
        is_last=False,
        has_backward=True,
        clear_runtime_states=lambda: None,
        get_fwd_recv_ops=lambda _: [],
        get_fwd_send_ops=lambda _: [],
        get_bwd_recv_ops=lambda _: [],
        get_bwd_send_ops=lambda _: [],
        forward_one_chunk=lambda m, *_, **__: asked.append(f"{rank}F{m}"),
        backward_one_chunk=lambda m, **__: asked.append(f"{rank}B{m}"),
        perform_reduce_grad=lambda _: None,
    )
    monkeypatch.setattr(schedules, "_batch_p2p", lambda *_, **__: [])
    monkeypatch.setattr(schedules, "_sorted_batch_p2p", lambda *_, **__: {})
    monkeypatch.setattr(schedules, "_wait_batch_p2p", lambda *_: None)
    made: Any = object.__new__(getattr(schedules, name))
    made.__dict__.update(
        _stage=stage, _n_microbatches=pipeline.microbatches, _num_stages=pipeline.ranks, scale_grads=True,
        _has_backward=True, _internal_losses=[], _loss_fn=None, _stage_forward_initialized=True,
        _stage_backward_initialized=True,
    )  # fmt: skip
    made._initialize_stage = lambda *_: None
    made._check_inputs = lambda args, kwargs, *_: ([()] * pipeline.microbatches, [{}] * pipeline.microbatches)
    made._step_microbatches()
    return asked


@pytest.mark.parametrize("definition", WITH_TORCH, ids=lambda d: d.name)
def test_orders_equal_those_of_torch(definition: ScheduleDef, monkeypatch: pytest.MonkeyPatch) -> None:
    single = issubclass(getattr(schedules, definition.torch), schedules.PipelineScheduleSingle)
    compared = 0
    for pipeline in _pipelines(definition):
        if not definition.legal(pipeline):
            continue
        built = definition.build(pipeline.ranks, pipeline.microbatches, pipeline.per_rank)
        for rank, order in enumerate(built.orders):
            if single:
                expected = _executed(definition.torch, pipeline, rank, monkeypatch)
            else:
                expected = _torch_order(definition.torch, pipeline, rank)
            assert [write_cell(cell) for cell in order] == expected, (pipeline, rank)
            compared += 1
    assert compared > 100


def test_every_schedule_of_torch_is_there() -> None:
    named = {name for name in schedules.__all__ if name.startswith("Schedule")}
    assert named == {definition.torch for definition in WITH_TORCH}
