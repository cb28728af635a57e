"""Compressed gradients: what a rank passes, what rounding does, and that training still gets where it is to get."""

from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest

from planner.collectives.compressed import BLOCK, SCALE_BYTES, part_bytes, passed
from planner.compose import bundle, evaluate, train
from planner.plan import Plan
from planner.proof.collectives import planned
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")
from planner.exporters.runtime import compression  # noqa: E402
from tests.proof.threads import each_rank, runtime  # noqa: E402

GRAPH = tiny_graph(num_hidden_layers=1)
MODES = ("bf16", "fp16", "int8", "one_bit")
STEPS = 30
ELEMENT = 8


def plan_of(mode: str, state: str = "data_parallel", mesh: str = "dp:4", **more: object) -> Plan:
    plan = tiny_plan(mesh, (state, "dp"), graph=GRAPH)
    return plan.gradients(**{"fusion": "auto", "compression": mode} | more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Run:
    """What a rank saw: the losses on one batch that it learns by heart, and what the first step passed."""

    losses: tuple[float, ...]
    log: tuple[tuple[str, tuple[str, ...], int, int], ...]


def learn(train_module: ModuleType, *, steps: int) -> Run:
    modules = runtime()
    trainer, parameters = modules["parallel.trainer"], modules["parallel.parameters"]
    settings: Any = train_module.SETTINGS
    mesh = modules["parallel.mesh"].Mesh(settings.mesh)
    mesh.compute = torch.float64
    model = train_module.MODEL(mesh).double()
    parameters.initialise(model, mesh, seed=0, std=0.1)
    batch = modules["parallel.data"].synthetic_batch(0, settings.inputs, seed=0)
    optimizer = modules["parallel.optimizer"].MasterAdamW(model, mesh)
    losses, mesh.log = [], []
    log: tuple[Any, ...] = ()
    for step in range(steps):
        mesh.step = step
        losses.append(trainer.loss_of_step(model, batch, settings, mesh).item())
        log = log or tuple(mesh.log)
        optimizer.step(1e-2)
    return Run(tuple(losses), log)


@cache
def run(mode: str, state: str = "data_parallel", overlap: bool = False, mesh: str = "dp:4") -> tuple[Run, ...]:
    plan = plan_of(mode, state, mesh, overlap=overlap)
    answers = each_rank(bundle(plan), plan.decisions.mesh.device_count, partial(learn, steps=STEPS))
    assert all(isinstance(answer, Run) for answer in answers), answers
    return tuple(answer for answer in answers if isinstance(answer, Run))


@pytest.mark.parametrize(
    ("mode", "state"),
    [
        *((mode, "data_parallel") for mode in MODES),
        ("one_bit", "zero2"),
        ("int8", "zero2"),
        *(pytest.param(mode, "zero2", marks=pytest.mark.slow) for mode in ("bf16", "fp16")),
    ],
)
def test_a_small_task_is_learnt_as_without(mode: str, state: str) -> None:
    """The loss falls as far as that of uncompressed training, within a share that the rounding of a mode explains."""
    exact, rounded = run("none")[0].losses, run(mode, state)[0].losses
    assert exact[-1] < 0.5 * exact[0]
    fallen = (rounded[0] - rounded[-1]) / (exact[0] - exact[-1])
    assert fallen == pytest.approx(1, abs=0.1 if mode == "one_bit" else 0.001)
    # All ranks hold the same parameters: the loss is the same on all of them, to the last bit but for sums' order.
    for other in run(mode, state)[1:]:
        assert other.losses == pytest.approx(rounded, rel=1e-12)


@pytest.mark.parametrize(
    "mode", [mode if mode == "int8" else pytest.param(mode, marks=pytest.mark.slow) for mode in MODES]
)
def test_with_overlap_nothing_changes(mode: str) -> None:
    assert run(mode, overlap=True)[0].losses == pytest.approx(run(mode)[0].losses, rel=1e-12)


@pytest.mark.parametrize("state", ["data_parallel", "zero2"])
@pytest.mark.parametrize("mode", ["none", *MODES])
def test_what_is_passed_is_what_was_planned(mode: str, state: str) -> None:
    plan = plan_of(mode, state)
    training = train(plan)
    for rank, answer in enumerate(run(mode, state)):
        ran = Counter(answer.log)
        assert planned(training, plan, rank, ran=ran) == ran


@pytest.mark.parametrize("mode", MODES)
def test_rows_have_the_bytes_that_are_passed(mode: str) -> None:
    """Counted by hand: one bucket of the layer's gradients, and those before and after it."""
    plan = plan_of(mode)
    rows = [row for row in evaluate(plan).collectives if row.gradients]
    ran = Counter((kind, max(into, out)) for kind, _, into, out in run(mode)[0].log)
    assert ran & Counter({(row.kind, row.payload_bytes): row.count for row in rows}) == Counter(
        {(row.kind, row.payload_bytes): row.count for row in rows}
    )
    sizes = {m.parameter: m.shared[0].source_elements for b in train(plan).buckets for m in b.members}
    layer = sum(size for name, size in sizes.items() if ".*." in name)
    found = [row for row in rows if ".*." in row.value]
    match mode:
        case "bf16":
            assert [(r.kind, r.payload_bytes, r.wire_bytes) for r in found] == [
                ("all_reduce", 2 * layer, 2 * 2 * layer * 3 / 4)
            ]
        case "fp16":
            assert [(r.kind, r.payload_bytes) for r in found] == [("all_reduce", 4), ("all_reduce", 2 * layer)]
        case _:
            part = -(-layer // 4)
            each = (part if mode == "int8" else -(-part // 8)) + 4 * -(-part // 1024)
            assert [(r.kind, r.payload_bytes, r.wire_bytes) for r in found] == [
                ("all_to_all", 4 * each, 3 * each),
                ("all_gather", 4 * each, 3 * each),
            ]


def test_a_compressed_reduction_moves_less() -> None:
    plan = tiny_plan("dp:4", ("data_parallel", "dp"), graph=tiny_graph(hidden_size=64, intermediate_size=4096))
    plan = plan.precise("fp32").gradients(fusion="auto")

    def bytes_of(mode: str) -> float:
        rows = [row for row in evaluate(plan.gradients(compression=mode)).collectives if row.reduces]
        return sum(r.wire_bytes * r.count for r in rows)

    moved = [bytes_of(mode) for mode in ("none", "bf16", "int8", "one_bit")]
    assert moved[1] == moved[0] / 2
    assert moved[0] / 4 < moved[2] < moved[0] / 3.9
    assert moved[0] / 32 < moved[3] < moved[0] / 25


@pytest.mark.parametrize("kind", [compression.Int8, compression.OneBit])
@pytest.mark.parametrize("size", [1, 7, 8, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_rows_of_bytes_give_numbers_again(kind: Any, size: int) -> None:
    x = torch.randn(3, size, generator=torch.Generator().manual_seed(size), dtype=torch.float32)
    x[1] = 0
    packing, memory = kind(), {}
    rows = packing._compressed(x, memory, "sent")
    name = "int8" if kind is compression.Int8 else "one_bit"
    assert (rows.dtype, tuple(rows.shape)) == (torch.uint8, (3, part_bytes(size, name)))
    back = packing._expanded(rows, size, x.dtype)
    torch.testing.assert_close(back + memory["sent"], x)
    blocks = [x[:, at : at + BLOCK] for at in range(0, size, BLOCK)]
    if name == "int8":
        steps = torch.cat([b.abs().amax(1, keepdim=True).expand_as(b) / 127 for b in blocks], 1)
        assert ((back - x).abs() <= steps / 2 * 1.0001).all()
    else:
        means = torch.cat([b.abs().mean(1, keepdim=True).expand_as(b) for b in blocks], 1)
        torch.testing.assert_close(back, torch.where(x >= 0, means, -means))


@pytest.mark.parametrize("kind", [compression.Int8, compression.OneBit])
def test_what_is_lost_once_is_sent_later(kind: Any) -> None:
    """The sum of all that arrives is the sum of all that was given, but for what is kept last."""
    packing, memory = kind(), {}
    generator = torch.Generator().manual_seed(0)
    given, come = torch.zeros(2, 50), torch.zeros(2, 50)
    for _ in range(30):
        x = torch.randn(2, 50, generator=generator)
        given = given + x
        come = come + packing._expanded(packing._compressed(x, memory, "sent"), 50, x.dtype)
    torch.testing.assert_close(come + memory["sent"], given, rtol=1e-4, atol=1e-4)
    assert memory["sent"].abs().max() < 10


@pytest.mark.parametrize("kind", [compression.Int8, compression.OneBit])
@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
def test_what_is_no_finite_number_arrives_as_such_and_is_forgotten(kind: Any, bad: float) -> None:
    x = torch.randn(2, 2 * BLOCK)
    x[0, 3] = bad
    packing, memory = kind(), {}
    back = packing._expanded(packing._compressed(x, memory, "sent"), x.shape[1], x.dtype)
    assert not back[0, :BLOCK].isfinite().all()
    assert back[0, BLOCK:].isfinite().all()
    assert back[1].isfinite().all()
    assert memory["sent"].isfinite().all()
    after = packing._expanded(packing._compressed(torch.randn(2, 2 * BLOCK), memory, "sent"), x.shape[1], x.dtype)
    assert after.isfinite().all()


def test_the_runtime_and_the_planner_cut_alike() -> None:
    assert compression.BLOCK == BLOCK
    assert torch.zeros((), dtype=torch.float32).element_size() == SCALE_BYTES
    for kind, name in ((compression.Int8(), "int8"), (compression.OneBit(), "one_bit")):
        for size in (1, 8, 1023, 1025):
            assert kind.number_bytes(size) + SCALE_BYTES * -(-size // BLOCK) == part_bytes(size, name)


def test_float16_sums_do_not_overflow() -> None:
    """Numbers near the largest of float16, and far below the least, come out of a sum of four ranks."""

    def work(train_module: ModuleType) -> tuple[float, float]:
        modules = runtime()
        mesh = modules["parallel.mesh"].Mesh({"dp": 4})
        found = []
        for number in (6e4, 3e-9):
            steps = (
                modules["parallel.compression"]
                .Float16()
                .all_reduce(torch.full((5,), number, dtype=torch.float64), ("dp",), mesh, {})
            )
            while True:
                try:
                    next(steps)[0].wait()
                except StopIteration as end:
                    found.append(end.value[0].item())
                    break
        return found[0], found[1]

    for answer in each_rank(bundle(plan_of("fp16")), 4, work):
        assert answer == pytest.approx((2.4e5, 1.2e-8), rel=1e-3)


def test_bytes_of_each_collective() -> None:
    assert [p.received_bytes for p in passed("all_reduce", 4, 100, 100, 4)] == [2 * 3 / 4 * 400]
    assert [p.received_bytes for p in passed("reduce_scatter", 4, 100, 25, 4)] == [300]
    assert [(p.kind, p.source_bytes, p.target_bytes) for p in passed("all_reduce", 4, 100, 100, 4, "int8")] == [
        ("all_to_all", 4 * 29, 4 * 29), ("all_gather", 29, 4 * 29),
    ]  # fmt: skip
    assert [(p.kind, p.source_bytes) for p in passed("reduce_scatter", 4, 100, 25, 4, "one_bit")] == [
        ("all_to_all", 4 * 8)
    ]


@pytest.mark.parametrize("mode", ["int8", pytest.param("one_bit", marks=pytest.mark.slow)])
def test_what_several_ranks_hold_alike_stays_alike(mode: str) -> None:
    """The weight of a norm is whole on both ranks of `tp`, and shares no scale with what they hold in shards."""
    plan = tiny_plan("dp:2,tp:2", ("zero2", "dp"), ("megatron", "tp"), graph=GRAPH)
    plan = plan.gradients(fusion="auto", compression=mode)
    answers = each_rank(bundle(plan), 4, partial(norms, steps=2))
    for one, other in ((0, 1), (2, 3)):
        assert not isinstance(answers[one], str), answers
        assert answers[one] == answers[other]


def norms(train_module: ModuleType, *, steps: int) -> dict[str, list[float]]:
    modules = runtime()
    mesh = modules["parallel.mesh"].Mesh(train_module.SETTINGS.mesh)
    mesh.compute = torch.float64
    model = train_module.MODEL(mesh).double()
    modules["parallel.parameters"].initialise(model, mesh, seed=0, std=0.1)
    batch = modules["parallel.data"].synthetic_batch(0, train_module.SETTINGS.inputs, seed=0)
    optimizer = modules["parallel.optimizer"].MasterAdamW(model, mesh)
    for _ in range(steps):
        modules["parallel.trainer"].loss_of_step(model, batch, train_module.SETTINGS, mesh)
        optimizer.step(1e-2)
    return {name: x.detach().tolist() for name, x in model.named_parameters() if "norm" in name}
