"""Each rank reads its own samples of files of tokens, and of these its own places; losses are those of one rank."""

from __future__ import annotations

import sys
from array import array
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from planner.compose import bundle
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")
from planner.exporters.runtime.data import Feed, Unread, local_batch, microbatch, share  # noqa: E402
from planner.exporters.runtime.mesh import Mesh  # noqa: E402
from tests.proof.threads import each_rank  # noqa: E402

SAMPLES, LENGTH, STEPS = 8, 8, 2
GRAPH = tiny_graph(num_hidden_layers=1)


def plan_of(mesh: str, *presets: tuple[str, str], microbatches: int = 1) -> Plan:
    return tiny_plan(mesh, *presets, graph=GRAPH, microbatches=microbatches)


def along(plan: Plan, axis: str) -> Plan:
    """Return the plan with everything but attention along the sequence, from tokens to loss."""
    for target in ("model.embed_tokens", "model.norm", "lm_head", "*loss*"):
        plan = plan.shard(target, {"seq": (axis,)})
    return plan


def steps(train: ModuleType, *, file: str) -> tuple[list[float], int]:
    """Return the losses of some steps, and how many tokens were read for them."""
    of: dict[str, Any] = {n: sys.modules[f"parallel.{n}"] for n in ("mesh", "parameters", "tokens", "trainer")}
    settings: Any = train.SETTINGS
    files = of["tokens"].TokenFiles([file], dtype="uint16", length=LENGTH, seed=0)
    read, sample = [0], files.sample

    def counted(index: int, start: int, stop: int) -> Any:
        read[0] += stop - start
        return sample(index, start, stop)

    files.sample = counted
    mesh = of["mesh"].Mesh(settings.mesh)
    model = train.MODEL(mesh).double()
    mesh.compute = torch.float64
    of["parameters"].initialise(model, mesh, seed=0, std=0.1)
    losses = [
        of["trainer"].loss_of_step(model, files.batch(step * SAMPLES, settings.inputs), settings, mesh).item()
        for step in range(STEPS)
    ]
    return losses, read[0]


WHOLE = 2 * SAMPLES * LENGTH
"""Tokens of a step with as many labels."""
PLANS = {
    "dp:2": (plan_of("dp:2", ("data_parallel", "dp"), microbatches=2), [WHOLE // 2] * 2),
    "dp:2,tp:2": (plan_of("dp:2,tp:2", ("zero2", "dp"), ("megatron", "tp")), [WHOLE // 2] * 4),
    "dp:4": (plan_of("dp:4", ("zero3", "dp")), [WHOLE // 4] * 4),
    "dp:2,cp:2": (along(plan_of("dp:2,cp:2", ("data_parallel", "dp")), "cp"), [WHOLE // 4] * 4),
    "pp:2,dp:2": (
        plan_of("pp:2,dp:2", ("data_parallel", "dp"), microbatches=2).pipelined("pp"), [WHOLE // 4] * 4,
    ),
}  # fmt: skip
"""Plan, and what each rank reads in a step: of two stages the first reads tokens, and the last labels."""


def test_a_rank_reads_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    path.write_bytes(array("H", [(7 * i * i + i // 5) % 32 for i in range(STEPS * SAMPLES * LENGTH + 1)]).tobytes())
    ((alone, everything),) = each_rank(bundle(plan_of("dp:1")), 1, partial(steps, file=str(path)))
    assert everything == STEPS * WHOLE
    assert len(set(alone)) == STEPS
    for name, (plan, wanted) in PLANS.items():
        answers = each_rank(bundle(plan), plan.decisions.mesh.device_count, partial(steps, file=str(path)))
        assert not any(isinstance(answer, str) for answer in answers), (name, answers)
        assert [read for _, read in answers] == [STEPS * each for each in wanted], name
        for losses, _ in answers:
            assert losses == pytest.approx(alone, rel=1e-12), name


def test_a_box_of_unequal_parts() -> None:
    """Samples and places that axes do not divide, over microbatches, beside the same cut from a tensor."""
    whole = torch.arange(7 * 10).view(7, 10)
    unread = Unread(read=lambda samples, places: whole[slice(*samples), slice(*places)], samples=(0, 7), length=10)
    feed = Feed(name="tokens", shape=(7, 10), dtype="int64", layout="[dp, cp]", kind="integers", samples=0)
    assert [part.shape for part in unread.tensor_split(3, 0)] == [tuple(x.shape) for x in whole.tensor_split(3, 0)]
    for rank in range(6):
        mesh = Mesh({"dp": 1, "cp": 1})
        mesh.sizes, mesh.rank = {"dp": 2, "cp": 3}, rank
        for index in range(3):
            found, exact = (local_batch(microbatch((x,), (feed,), index, 3), (feed,), mesh, torch.float64)[0]
                            for x in (unread, whole))  # fmt: skip
            assert torch.equal(found, exact)


def test_labels_are_read_to_be_counted_only_where_a_token_stands_for_none() -> None:
    labels = torch.tensor([[1, 0], [2, 3]])
    read: list[Any] = []

    def reading(samples: Any, places: Any) -> Any:
        read.append(samples)
        return labels[slice(*samples), slice(*places)]

    unread = Unread(read=reading, samples=(0, 2), length=2)
    for ignored, shares in ((-100, [0.5, 0.5]), (0, [1 / 3, 2 / 3])):
        feed = Feed(
            name="labels", shape=(2, 2), dtype="int64", layout="[-, -]", kind="next", ignored=ignored, samples=0
        )
        found = [share((unread,), microbatch((unread,), (feed,), i, 2), (feed,), 2) for i in range(2)]
        assert found == shares
        assert bool(read) == (ignored == 0)
