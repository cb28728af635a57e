"""What goes wrong before or in the first steps: one sentence of rank 0, and all ranks end soon and not with 0."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from planner.compose import export
from tests.exporters.ranks import RankProcesses, Training
from tests.tiny import tiny_graph, tiny_plan

pytest.importorskip("torch")

SLOW = pytest.mark.slow
SHARDED = (("zero2", "dp"), ("megatron", "tp"))
VOCABULARY, SAMPLES, LENGTH = 32, 8, 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with bundles, files of tokens, a file that is no folder, and a checkpoint of another model."""
    folder = tmp_path_factory.mktemp("place")
    for name, width in (("bundle", 32), ("other", 64)):
        graph = tiny_graph(num_hidden_layers=1, hidden_size=width)
        export(tiny_plan("dp:2,tp:2", *SHARDED, graph=graph), folder / name)
    whole = SAMPLES * LENGTH + 1
    # The last sample is one of the second data rank, of whose two ranks each has a half of the vocabulary.
    for name, tokens in (
        ("known", [i % VOCABULARY for i in range(whole)]),
        ("unknown", [0] * (whole - 3) + [VOCABULARY] * 3),
        ("short", [0] * LENGTH),
    ):
        (folder / name).write_bytes(array("H", tokens).tobytes())
    (folder / "odd").write_bytes(b"123")
    return folder


def told(done: Training, world: int, code: int = 1) -> str:
    """Return what rank 0 says, after seeing that nobody says anything else."""
    assert done.codes == (code,) * world, done.texts
    assert done.seconds < 30
    assert all(not text for text in done.texts[1:]), done.texts
    return done.texts[0]


@pytest.mark.parametrize(
    ("world", "options", "sentence"),
    [
        (4, ("--data", "{}/unknown"), "there is the token 32, but the model knows 32, from 0 on; is --data-type"),
        (4, ("--save", "{}/known/folder"), "{}/known/folder is no folder to write to: Not a directory"),
        pytest.param(4, ("--data", "{}/missing"), "No such file or directory: {}/missing", marks=SLOW),
        pytest.param(2, (), "the mesh dp 2, tp 2 needs 4 ranks, but 2 are running: start as many, or", marks=SLOW),
        pytest.param(4, ("--data", "{}/short"), "{}/short: not one sample of 8 tokens and the one after", marks=SLOW),
        pytest.param(4, ("--data", "{}/odd"), "{}/odd: 3 bytes are no whole number of uint16", marks=SLOW),
        pytest.param(4, ("--save", "{}/known"), "{}/known is no folder to write to: File exists", marks=SLOW),
        pytest.param(4, ("--log-file", "{}/known/log"), "Not a directory: {}/known/log", marks=SLOW),
        pytest.param(
            4, ("--profile", "0:1", "--profile-folder", "{}/odd"), "{}/odd is no folder to write to", marks=SLOW
        ),
        pytest.param(4, ("--resume", "{}/nothing"), "there is no checkpoint {}/nothing", marks=SLOW),
        pytest.param(4, ("--init", "{}/nothing.safetensors"), "No such file or directory", marks=SLOW),
    ],
)  # fmt: skip
def test_one_sentence(
    world: int, options: tuple[str, ...], sentence: str, ranks: RankProcesses, place: Path, tmp_path: Path
) -> None:
    given = (option.format(place) for option in options)
    # The log would be written where it is to be refused.
    done = ranks.train(world, place / "bundle", "--steps", "2", *given, log="--log-file" not in options)
    text = told(done, world)
    assert text.startswith("Training stopped: "), text
    assert text.count("\n") == 1, text
    assert sentence.format(place) in text
    assert not done.losses


@pytest.mark.slow
def test_a_wrong_option_is_told_once(ranks: RankProcesses, place: Path) -> None:
    text = told(ranks.train(4, place / "bundle", "--microbatches", "3"), 4, code=2)
    assert text.count("error:") == 1
    assert "8 samples a step can't be cut into 3 microbatches; use one of [1, 2, 4, 8]" in text


@pytest.mark.slow
def test_a_checkpoint_of_another_model(ranks: RankProcesses, place: Path, tmp_path: Path) -> None:
    saved = ("--save", str(tmp_path / "saved"))
    assert ranks.train(4, place / "other", "--steps", "1", *saved).codes == (0,) * 4
    text = told(ranks.train(4, place / "bundle", "--steps", "2", *saved, "--resume"), 4)
    assert text.count("\n") == 1
    assert "in the shape (32, 64), and it has (32, 32) here: it is of a model of other sizes" in text


@pytest.mark.slow
def test_a_disk_that_is_full(ranks: RankProcesses, place: Path, tmp_path: Path) -> None:
    """It fills up on one rank after the first checkpoint, which stays."""
    saved = ("--save", str(tmp_path / "saved"), "--save-every", "1")
    done = ranks.train(4, place / "bundle", "--steps", "3", *saved, victim=1, step=1, how="full")
    assert done.codes == (1,) * 4, done.texts
    assert done.seconds < 30
    assert [text.count("Training stopped: rank 1: ") for text in done.texts] == [1, 0, 0, 0], done.texts
    assert not any("Traceback" in text for text in done.texts), done.texts
    again = ranks.train(4, place / "bundle", "--steps", "3", *saved, "--resume")
    assert again.codes == (0,) * 4, again.texts
    assert list(again.losses) == [1, 2]


@pytest.mark.slow
def test_without_a_launcher(place: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "RANK", "WORLD", "LOCAL", "MASTER"))}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=place / "bundle", env=kept, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Training stopped: the mesh dp 2, tp 2 needs 4 ranks, but 1 are running" in done.stderr
