"""Checkpoints: bit for bit the same whole tensors on other ranks under other plans, complete or not there."""

import os
import pickle
import re
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from planner.compose import bundle, export
from planner.core.graph import ModelGraph
from planner.errors import PlannerError
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses
from tests.proof.random_plans import random_plan_of
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")

from planner.exporters.runtime.agreement import CheckpointError  # noqa: E402
from planner.exporters.runtime.folders import complete  # noqa: E402
from planner.exporters.runtime.stored import read_metadata  # noqa: E402
from tests.exporters import saving  # noqa: E402

MEGATRON = (("megatron", "tp"), ("sequence_parallel", "tp"))
SIZES = {"vocab_size": 33, "hidden_size": 30, "intermediate_size": 50}
"""Sizes that no axis divides."""


@cache
def uneven() -> ModelGraph:
    return tiny_graph("qwen2", tied=True, **SIZES)


PAIRS = {
    "zero3 to zero1, smaller": ("dp:2,tp:2", (("zero3", "dp"), *MEGATRON), "dp:2", (("zero1", "dp"),)),
    "dp-tp to tp": ("dp:2,tp:4", MEGATRON, "tp:4", MEGATRON),
    "zero3 to zero1": ("dp:2,tp:4", (("zero3", "dp"), *MEGATRON), "dp:4", (("zero1", "dp"),)),
    "zero1 to zero3 with tp": ("dp:8", (("zero1", "dp"),), "dp:2,tp:2", (("zero3", "dp"), *MEGATRON)),
}
QUICK = ("zero3 to zero1, smaller",)


STAGED = {
    "pipeline to zero3": ("pp:2,dp:2,tp:2", (("zero1", "dp"), *MEGATRON), "dp:4", (("zero3", "dp"),)),
    "tp to pipeline": ("tp:4", MEGATRON, "pp:2,dp:2", (("zero3", "dp"),)),
    "pipeline to pipeline": ("pp:2,tp:2", MEGATRON, "pp:2,dp:2", (("zero1", "dp"),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGED)
def test_stages_hold_some_and_share_some(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    """The embedding is tied: the first stage and the last have it, and it is in the checkpoint once."""
    mesh, presets, other_mesh, others = STAGED[name]
    plans = [
        tiny_plan(axes, *chosen, graph=uneven(), microbatches=2)
        for axes, chosen in ((mesh, presets), (other_mesh, others))
    ]
    kept_on(ranks, [plan.pipelined("pp") if "pp" in plan.decisions.mesh.names else plan for plan in plans], tmp_path)


def written(plan: Plan, folder: Path) -> Path:
    export(plan, folder)
    return folder


def kept_on(ranks: RankProcesses, plans: Sequence[Plan], folder: Path) -> None:
    """Save on the first plan's ranks and read on the others'."""
    first, *others = [written(plan, folder / f"bundle-{index}") for index, plan in enumerate(plans)]
    ranks.run(plans[0].decisions.mesh.device_count, saving.write, first, folder / "saved")
    for plan, other in zip(plans[1:], others, strict=True):
        answers = ranks.run(plan.decisions.mesh.device_count, saving.read, other, folder / "saved" / "step-00000005")
        assert all(state == {"step": 5, "seed": 3} for state, _ in answers)
        assert min(count for _, count in answers) > 20


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PAIRS])
def test_other_ranks_read_the_same_numbers(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    mesh, presets, other_mesh, others = PAIRS[name]
    kept_on(
        ranks, (tiny_plan(mesh, *presets, graph=uneven()), tiny_plan(other_mesh, *others, graph=uneven())), tmp_path
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_any_legal_plan_reads_what_any_other_wrote(seed: int, ranks: RankProcesses, tmp_path: Path) -> None:
    """Random layouts of parameters, gradients and optimizer state, most of them with parts of unequal size or none."""
    random = Random(seed)
    graph = tiny_graph(random.choice(("qwen2", "qwen3-experts", "llama-biased")), tied=random.random() < 0.5, **SIZES)
    kept_on(ranks, [legal(graph, random, world) for world in (8, 4, 8)], tmp_path)


def legal(graph: ModelGraph, random: Random, world: int) -> Plan:
    for _ in range(200):
        plan = random_plan_of(graph, random, world)
        try:
            bundle(plan)
        except PlannerError:
            continue
        return plan
    raise AssertionError("no plan of 200 is legal")


def test_replicas_are_written_once(ranks: RankProcesses, tmp_path: Path) -> None:
    plan = tiny_plan("dp:2,tp:2", ("megatron", "tp"), graph=tiny_graph())
    ranks.run(4, saving.write, written(plan, tmp_path / "bundle"), tmp_path / "saved")
    stored = read_metadata(tmp_path / "saved" / "step-00000005").state_dict_metadata
    cut = [name for name, tensor in stored.items() if len(tensor.chunks) > 1]
    assert cut
    for name, tensor in stored.items():
        taken = torch.zeros(tensor.size, dtype=torch.int64)
        for chunk in tensor.chunks:
            taken[tuple(slice(o, o + s) for o, s in zip(chunk.offsets, chunk.sizes, strict=True))] += 1
        assert bool((taken == 1).all()), name
    files = [path.stat().st_size for path in (tmp_path / "saved").glob("*/*.distcp")]
    assert len(files) == 4
    # All ranks share the work.
    assert max(files) <= 2 * min(files)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
def test_values_have_all_bits_of_the_optimizer(dtype: str, ranks: RankProcesses, tmp_path: Path) -> None:
    """What was written from float64 is rounded once; parameters follow from the optimizer's values."""
    plan = tiny_plan("dp:2", ("zero1", "dp"), graph=tiny_graph())
    folder = written(plan, tmp_path / "bundle")
    ranks.run(2, saving.write, folder, tmp_path / "saved")
    ranks.run(2, saving.read, folder, tmp_path / "saved" / "step-00000005", getattr(torch, dtype))


def test_only_complete_checkpoints_count(ranks: RankProcesses, tmp_path: Path) -> None:
    folder = written(tiny_plan("dp:1", graph=tiny_graph()), tmp_path / "bundle")
    saved = tmp_path / "saved"
    ranks.run(1, saving.write, folder, saved, (1, 2, 3, 4), 3)
    names = [f"step-0000000{number}" for number in (2, 3, 4)]
    assert sorted(path.name for path in saved.iterdir()) == names

    # Damaged ones are no checkpoints, and are not counted among those that stay.
    with (saved / names[2] / "__0_0.distcp").open("ab") as file:
        file.truncate(100)
    (saved / names[1] / "state.json").unlink()
    left = saved / "step-00000009.partial"
    left.mkdir()
    assert [path.name for path in complete(saved)] == names[:1]
    texts = [ranks.run(1, saving.refused, folder, saved / name)[0] for name in (*names[1:], "step-00000007")]
    assert "has no state.json" in texts[0]
    assert "__0_0.distcp has 100 bytes instead of" in texts[1]
    assert "there is no checkpoint" in texts[2]

    # A damaged one of the same step is replaced, and what a killed run left is removed.
    ranks.run(1, saving.write, folder, saved, (4,), 3)
    assert [path.name for path in complete(saved)] == [names[0], names[2]]
    assert not left.exists()


def test_a_checkpoint_is_never_written_over(ranks: RankProcesses, tmp_path: Path) -> None:
    folder = written(tiny_plan("dp:1", graph=tiny_graph()), tmp_path / "bundle")
    with pytest.raises(AssertionError, match="step-00000004 exists: remove it, or save to another folder"):
        ranks.run(1, saving.write, folder, tmp_path / "saved", (4, 4))


def test_what_does_not_fit_is_named(ranks: RankProcesses, tmp_path: Path) -> None:
    """Another model's checkpoint: sizes, tensors that it lacks, and tensors that it has too many of."""
    plans = {
        "first": tiny_plan("dp:1", graph=tiny_graph()),
        "wider": tiny_plan("dp:2", ("zero3", "dp"), graph=tiny_graph(intermediate_size=64)),
        "biased": tiny_plan("dp:1", graph=tiny_graph("llama-biased")),
    }
    folders = {name: written(plan, tmp_path / name) for name, plan in plans.items()}
    for name in ("first", "biased"):
        ranks.run(1, saving.write, folders[name], tmp_path / f"{name}-saved")
    step = "step-00000005"
    wider = ranks.run(2, saving.refused, folders["wider"], tmp_path / "first-saved" / step)
    assert re.search(
        r"layers\.0\.mlp\.\w+\.weight in the shape \((48, 32|32, 48)\), and it has \((64, 32|32, 64)\)", wider[0]
    )
    assert wider[0] == wider[1]
    lacking = ranks.run(1, saving.refused, folders["biased"], tmp_path / "first-saved" / step)
    assert re.search(r"has no model\.model\.layers\.0\.\S+\.bias, which has the shape \(\d+,\) here", lacking[0])
    over = ranks.run(1, saving.refused, folders["first"], tmp_path / "biased-saved" / step)
    assert re.search(r"has \d+ tensors that are not in this model, such as model\.\S+\.bias", over[0])


class Harmful:
    def __reduce__(self) -> Any:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize("how", ["another class", "a call", "a path", "damaged"])
def test_metadata_can_do_nothing(
    how: str, ranks: RankProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = written(tiny_plan("dp:1", graph=tiny_graph()), tmp_path / "bundle")
    ranks.run(1, saving.write, folder, tmp_path / "saved")
    path = tmp_path / "saved" / "step-00000005" / ".metadata"
    found = pickle.loads(path.read_bytes())
    match how:
        case "another class":
            found.planner_data = Harmful
            expected = r"it names tests\.exporters\.test_checkpoint\.Harmful, which is nothing that describes tensors"
        case "a call":
            found.planner_data = Harmful()
            expected = r"it names posix\.system"
        case "a path":
            next(iter(found.storage_data.values())).relative_path = "../elsewhere"
            expected = r"it names the file '\.\./elsewhere'"
        case _:
            found = 3
            expected = "it holds a int"
    path.write_bytes(pickle.dumps(found))
    with pytest.raises(CheckpointError, match=expected):
        read_metadata(path.parent)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.slow
def test_torch_reads_it_too(ranks: RankProcesses, tmp_path: Path) -> None:
    """Other tools need no code of ours: the files are those of torch.distributed.checkpoint."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    plan = tiny_plan("dp:2,tp:2", ("zero3", "dp"), *MEGATRON, graph=uneven())
    ranks.run(4, saving.write, written(plan, tmp_path / "bundle"), tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp_to_torch_save(tmp_path / "saved" / "step-00000005", tmp_path / "whole.pt")
    tensors = torch.load(tmp_path / "whole.pt", weights_only=True)
    for name, x in tensors.items():
        assert torch.equal(x, saving.whole(name, tuple(x.shape)).to(x.dtype)), name
    assert "model.model.layers.0.mlp.up_proj.weight" in tensors
