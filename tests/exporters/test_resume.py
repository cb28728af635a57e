"""Runs that end early, by a kill or as told, go on from their checkpoints with the same losses."""

from array import array
from pathlib import Path

import pytest

from planner.compose import export
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses, Training
from tests.tiny import tiny_graph, tiny_plan, with_dropout

pytest.importorskip("torch")

OPTIONS = ("--dtype", "float64", "--lr", "1e-2")
STEPS = 10
MEGATRON = (("megatron", "tp"), ("sequence_parallel", "tp"))


def plan(mesh: str, *presets: tuple[str, str], microbatches: int = 1) -> Plan:
    graph = with_dropout(tiny_graph("qwen2", tied=True, intermediate_size=50))
    return tiny_plan(mesh, *presets, graph=graph, microbatches=microbatches)


PLANS = {
    "one": plan("dp:1"),
    "zero3-tp": plan("dp:4,tp:2", ("zero3", "dp"), *MEGATRON),
    "zero1": plan("dp:4", ("zero1", "dp")),
    "tp": plan("tp:4", *MEGATRON),
    "host": plan("dp:2,tp:2", ("zero2", "dp"), *MEGATRON).preset("offload_parameters").preset("recompute_full"),
    "pp": plan("pp:2,dp:2", ("zero1", "dp"), microbatches=2).pipelined("pp"),
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    for name, each in PLANS.items():
        export(each, folder / name)
    return {name: folder / name for name in PLANS}


@pytest.fixture(scope="module")
def whole(ranks: RankProcesses, bundles: dict[str, Path]) -> dict[int, float]:
    """Losses of the unsharded model, never interrupted."""
    done = ranks.train(1, bundles["one"], *OPTIONS, "--steps", f"{STEPS}")
    assert done.codes == (0,), done.texts[0]
    assert list(done.losses) == list(range(STEPS))
    assert len(set(done.losses.values())) == STEPS
    return done.losses


def ended(done: Training) -> dict[int, float]:
    assert set(done.codes) == {0}, done.texts
    return done.losses


def test_a_killed_run_goes_on_with_half_the_ranks_and_another_plan(
    ranks: RankProcesses, bundles: dict[str, Path], whole: dict[int, float], tmp_path: Path
) -> None:
    """ZeRO-3 with tensor and sequence parallelism on 8 ranks, killed in step 5; ZeRO-1 on 4 from step 4."""
    kept = ("--save", f"{tmp_path / 'saved'}", "--save-every", "2")
    options = (*OPTIONS, "--steps", f"{STEPS}", "--patience", "4", *kept)
    killed = ranks.train(8, bundles["zero3-tp"], *options, victim=5, step=5)
    assert killed.codes[5] == -9
    assert None not in killed.codes
    assert all(code for code in killed.codes)
    assert killed.seconds < 15
    assert killed.losses == pytest.approx({step: whole[step] for step in killed.losses}, rel=1e-10)
    assert list(killed.losses) == list(range(5))

    resumed = ended(ranks.train(4, bundles["zero1"], *OPTIONS, "--steps", f"{STEPS}", *kept, "--resume"))
    assert list(resumed) == list(range(4, STEPS))
    assert resumed == pytest.approx({step: whole[step] for step in resumed}, rel=1e-10)


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_saves_goes_on_from_the_save_before(
    ranks: RankProcesses, bundles: dict[str, Path], whole: dict[int, float], tmp_path: Path
) -> None:
    kept = ("--save", f"{tmp_path / 'saved'}", "--save-every", "2", "--keep", "1")
    killed = ranks.train(4, bundles["zero1"], *OPTIONS, "--steps", "10", *kept, victim=2, step=6, saving=True)
    assert killed.codes[2] == -9
    assert None not in killed.codes
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["step-00000004", "step-00000006.partial"]
    resumed = ended(ranks.train(4, bundles["tp"], *OPTIONS, "--steps", "10", *kept, "--resume"))
    assert list(resumed) == list(range(4, 10))
    assert resumed == pytest.approx({step: whole[step] for step in resumed}, rel=1e-10)
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["step-00000010"]


@pytest.mark.slow
def test_a_run_in_parts_is_the_same_bit_for_bit(ranks: RankProcesses, bundles: dict[str, Path], tmp_path: Path) -> None:
    """Same ranks, same plan; also where parameters have fewer bits than the optimizer."""
    for dtype in ("float64", "bfloat16"):
        options = ("--dtype", dtype, "--lr", "1e-2")
        saved = ("--save", f"{tmp_path / dtype}")
        at_once = ended(ranks.train(4, bundles["zero1"], *options, "--steps", "6"))
        first = ended(ranks.train(4, bundles["zero1"], *options, "--steps", "3", *saved))
        rest = ended(ranks.train(4, bundles["zero1"], *options, "--steps", "6", *saved, "--resume"))
        assert first | rest == at_once


@pytest.mark.slow
def test_from_plan_to_plan(
    ranks: RankProcesses, bundles: dict[str, Path], whole: dict[int, float], tmp_path: Path
) -> None:
    saved = ("--save", f"{tmp_path / 'saved'}", "--resume")
    losses: dict[int, float] = {}
    for world, name, steps in (
        (4, "tp", 2),
        (8, "zero3-tp", 4),
        (4, "pp", 6),
        (1, "one", 8),
        (4, "host", 9),
        (4, "zero1", STEPS),
    ):
        found = ended(ranks.train(world, bundles[name], *OPTIONS, "--steps", f"{steps}", *saved))
        assert list(found) == list(range(len(losses), steps))
        losses |= found
    assert losses == pytest.approx(whole, rel=1e-10)


@pytest.mark.slow
def test_files_are_read_on_where_they_were_left(ranks: RankProcesses, bundles: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "tokens.bin").write_bytes(array("H", [(7 * i * i + i // 5) % 32 for i in range(8 * 8 * 4)]).tobytes())
    options = (*OPTIONS, "--schedule", "cosine", "--steps", "6", "--data", f"{tmp_path / 'tokens.bin'}")
    saved = ("--save", f"{tmp_path / 'saved'}", "--save-every", "3", "--resume")
    at_once = ended(ranks.train(1, bundles["one"], *options))
    killed = ranks.train(4, bundles["zero1"], *options, *saved, victim=1, step=4)
    rest = ended(ranks.train(4, bundles["tp"], *options, *saved))
    assert list(rest) == [3, 4, 5]
    assert killed.losses | rest == pytest.approx(at_once, rel=1e-10)


@pytest.mark.slow
def test_runs_are_not_mixed(ranks: RankProcesses, bundles: dict[str, Path], tmp_path: Path) -> None:
    saved = ("--save", f"{tmp_path / 'saved'}")
    ended(ranks.train(1, bundles["one"], *OPTIONS, "--steps", "2", *saved))
    again = ranks.train(1, bundles["one"], *OPTIONS, "--steps", "2", *saved)
    assert again.codes != (0,)
    assert "step-00000002, which is later than the 0 steps that this run starts from" in again.texts[0]
    seeded = ranks.train(1, bundles["one"], *OPTIONS, "--steps", "3", *saved, "--resume", "--seed", "4")
    assert seeded.codes != (0,)
    assert "give it the same --seed" in seeded.texts[0]
    lacking = ranks.train(1, bundles["one"], *OPTIONS, "--resume")
    assert lacking.codes == (2,)
    assert "--resume latest need --save FOLDER" in lacking.texts[0]
