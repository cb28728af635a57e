"""Runs of exported training on rank processes: precision, data, and what becomes of all ranks when one fails."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from planner.compose import export
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")

SHARDED = (("zero1", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    plans = {
        "whole": tiny_plan("whole:1", graph=tiny_graph()),
        "sharded": tiny_plan("dp:2,tp:2", *SHARDED, graph=tiny_graph(), microbatches=2),
        "wide": tiny_plan("dp:2,tp:2", *SHARDED, graph=tiny_graph(), microbatches=2).precise("bf16-fp32sum"),
        "dp": tiny_plan("dp:4", ("data_parallel", "dp"), graph=tiny_graph(), microbatches=2),
    }
    for name, plan in plans.items():
        export(plan, folder / name)
    return {name: folder / name for name in plans}


@pytest.fixture
def tokens(tmp_path: Path) -> list[str]:
    """Two files of a row that can be learnt."""
    files = []
    for number, count in enumerate((400, 250)):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(struct.pack(f"<{count}H", *((i * i + 7 * number) % 32 for i in range(count))))
        files.append(str(path))
    return files


# ------------------------------------------------------------------ precision

TEN = ("--steps", "10", "--lr", "3e-3", "--clip", "1")


@pytest.mark.parametrize(
    ("dtype", "plan"),
    [
        ("bfloat16", "sharded"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("float16", "sharded"), ("bfloat16", "wide"))),
    ],
)
def test_ten_steps_in_mixed_precision_follow_one_process(
    dtype: str, plan: str, ranks: RankProcesses, bundles: dict[str, Path], tokens: list[str]
) -> None:
    """Losses differ by less than that type tells apart at 1, from one process in it and in float64, and fall."""
    options = (*TEN, "--data", *tokens, "--dtype")
    exact, alone = (ranks.train(1, bundles["whole"], *options, each).losses for each in ("float64", dtype))
    together = ranks.train(4, bundles[plan], *options, dtype)
    assert together.codes == (0,) * 4, together.texts
    assert list(together.losses) == list(alone) == list(range(10))
    least = torch.finfo(getattr(torch, dtype)).eps
    assert together.losses == pytest.approx(alone, abs=least, rel=0)
    assert together.losses == pytest.approx(exact, abs=least, rel=0)
    assert together.losses[9] < together.losses[0] - 0.5


def test_infinite_gradients_of_one_rank_leave_the_step_out_on_all(
    ranks: RankProcesses, bundles: dict[str, Path]
) -> None:
    done = ranks.train(
        4, bundles["sharded"], "--steps", "6", "--dtype", "float16", victim=2, step=3, how="infinite"
    )  # fmt: skip
    assert done.codes == (0,) * 4, done.texts
    records = list(done.records.values())
    assert [record["skipped"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert [record["loss_scale"] for record in records] == [2.0**16] * 3 + [2.0**15] * 3
    assert records[3]["gradient_norm"] is None


# ----------------------------------------------------------------------- data


def test_files_give_the_same_batches_on_any_ranks_in_any_microbatches(
    ranks: RankProcesses, bundles: dict[str, Path], tokens: list[str]
) -> None:
    options = ("--steps", "12", "--dtype", "float64", "--lr", "1e-2", "--schedule", "linear", "--data", *tokens)
    alone = ranks.train(1, bundles["whole"], *options, "--microbatches", "8").losses
    together = ranks.train(4, bundles["sharded"], *options)
    assert together.codes == (0,) * 4, together.texts
    assert together.losses == pytest.approx(alone, rel=1e-10)
    assert len(alone) == len(set(alone.values())) == 12
    assert alone[11] < alone[0] - 0.1


# -------------------------------------------------------------------- failure


def test_an_error_on_one_rank_ends_all_with_one_message(ranks: RankProcesses, bundles: dict[str, Path]) -> None:
    done = ranks.train(4, bundles["dp"], "--steps", "9", victim=1, step=2, how="raises")
    assert done.codes == (1,) * 4, done.texts
    assert done.seconds < 10
    assert list(done.losses) == [0, 1]
    told = "Training stopped: rank 1 failed: ArithmeticError: no more numbers"
    assert [text.count(told) for text in done.texts] == [0, 1, 0, 0]
    assert [text.count("Traceback") for text in done.texts] == [0, 1, 0, 0]


@pytest.mark.parametrize("victim", [3, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_all(victim: int, ranks: RankProcesses, bundles: dict[str, Path]) -> None:
    """Rank 0 keeps the store: with it goes what the others could tell each other."""
    done = ranks.train(4, bundles["dp"], "--steps", "9", "--patience", "4", victim=victim, step=2)
    others = [rank for rank in range(4) if rank != victim]
    assert done.codes[victim] == -9
    assert [done.codes[rank] for rank in others] == [1] * 3, done.texts
    assert done.seconds < 15
    told = [f"rank {victim} is gone: no sign of life for 4 s", "the store of the process group is gone"][victim == 0]
    counts = [done.texts[rank].count(told) for rank in others]
    assert sum(counts) == 1 if victim else min(counts) == 1, done.texts
    assert all("Traceback" not in done.texts[rank] for rank in others), done.texts


@pytest.mark.slow
def test_a_killed_rank_ends_all_in_under_half_a_minute(ranks: RankProcesses, bundles: dict[str, Path]) -> None:
    done = ranks.train(4, bundles["dp"], "--steps", "9", victim=2, step=5)
    assert sorted(done.codes, key=str) == [-9, 1, 1, 1]
    assert done.seconds < 30


@pytest.mark.slow
def test_a_rank_that_lives_and_does_not_come_ends_all(ranks: RankProcesses, bundles: dict[str, Path]) -> None:
    done = ranks.train(
        4, bundles["dp"], "--steps", "9", "--patience", "2", "--timeout", "5", victim=2, step=2, how="waits"
    )  # fmt: skip
    assert done.codes == (1,) * 4, done.texts
    assert sum(text.count("Training stopped") for text in done.texts) == 1, done.texts


def test_a_signal_to_one_rank_ends_all_after_the_same_step(
    ranks: RankProcesses, bundles: dict[str, Path], tmp_path: Path
) -> None:
    saved = ("--save", str(tmp_path), "--dtype", "float64")
    done = ranks.train(4, bundles["dp"], "--steps", "9", *saved, victim=2, step=3, how="terminated")
    assert done.codes == (143,) * 4, done.texts
    assert list(done.losses) == [0, 1, 2, 3]
    assert "ended by signal 15 after step 3" in done.texts[0]
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000004"]
    again = ranks.train(4, bundles["dp"], "--steps", "9", *saved, "--resume")
    assert again.codes == (0,) * 4, again.texts
    whole = ranks.train(1, bundles["whole"], "--steps", "9", "--dtype", "float64").losses
    assert done.losses | again.losses == pytest.approx(whole, rel=1e-10)


# -------------------------------------------------------------------- reports


def test_every_rank_writes_its_profile(ranks: RankProcesses, bundles: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    done = ranks.train(4, bundles["dp"], "--steps", "4", "--profile", "1:2", "--profile-folder", str(folder))
    assert done.codes == (0,) * 4, done.texts
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert sorted(texts) == [f"rank{rank}.json" for rank in range(4)]
    assert all('"traceEvents"' in text and "gloo:all_reduce" in text for text in texts.values())


def test_a_line_for_some_steps_and_the_last(ranks: RankProcesses, bundles: dict[str, Path]) -> None:
    done = ranks.train(1, bundles["whole"], "--steps", "8", "--log-every", "3")
    assert list(done.records) == [0, 3, 6, 7]
