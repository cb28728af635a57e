"""The command line of exported training: what it gives, and what it refuses before anything is started."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from planner.compose import bundle
from planner.exporters.runtime.data import Feed
from planner.exporters.runtime.options import Options, parse
from planner.exporters.runtime.settings import Settings
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan, with_dropout

TOKENS = Feed(
    name="tokens", shape=(12, 8), dtype="int64", layout="[dp, -]", kind="integers", high=32, samples=0
)  # fmt: skip
SETTINGS = Settings(
    mesh={"dp": 2, "tp": 2}, samples=12, microbatches=3, inputs=(TOKENS,), dtype="bfloat16", tokens=8, multiple=2
)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, settings: Settings = SETTINGS) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(settings, arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_defaults_are_those_of_the_plan() -> None:
    options = parse(SETTINGS, [])
    assert (options.dtype, options.microbatches, options.data, options.clip) == ("bfloat16", 3, (), None)
    # All ranks have ended in under 30 s after one is killed: tests on ranks wait less, and slow ones as long as this.
    assert options.patience == 15


def test_every_option_arrives() -> None:
    line = (
        "--steps 7 --seed 1 --data a b --data-type uint32 --lr 0.5 --schedule cosine --warmup 2 --lr-end 0.1 "
        "--weight-decay 0.2 --betas 0.8 0.99 --clip 1.5 --dtype float16 --microbatches 6 --compile --log-every 5 "
        "--log-file l --profile 3:2 --profile-folder p --timeout 60 --patience 5"
    )
    found = parse(SETTINGS, line.split())
    assert found == Options(
        steps=7, seed=1, data=("a", "b"), data_type="uint32", lr=0.5, schedule="cosine", warmup=2, lr_end=0.1,
        weight_decay=0.2, betas=(0.8, 0.99), clip=1.5, dtype="float16", microbatches=6, compile=True, log_every=5,
        pipelining="table", log_file="l", profile=(3, 2), profile_folder="p", timeout=60, patience=5,
        checkpoints=found.checkpoints,
    )  # fmt: skip


def test_help_tells_every_option_and_the_mesh(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(SETTINGS, ["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "ranks dp 2 × tp 2, 12 sequences of 8 tokens a step" in told
    for name in Options.__dataclass_fields__:
        assert name in {"checkpoints", "pipelining"} or f"--{name.replace('_', '-')}" in told, name
    for name in ("save", "save-every", "keep", "resume", "init"):
        assert f"--{name}" in told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--steps -1", "--steps is at least 0, not -1"),
        ("--log-every 0", "--log-every is at least 1, not 0"),
        ("--profile 3", "'3' is no window of steps such as 10:3"),
        ("--profile 3:0", "'3:0' is no window of steps such as 10:3"),
        ("--patience 0", "--timeout and --patience are seconds, more than 0"),
        ("--schedule step", "invalid choice: 'step'"),
        ("--microbatches 5", "12 samples a step can't be cut into 5 microbatches; use one of [1, 2, 3, 4, 6, 12]"),
        ("--microbatches 12", "microbatches of 1 samples do not divide over the ranks, which need a multiple of 2"),
    ],
)
def test_mistakes_are_told(arguments: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reason in refused(capsys, *arguments.split())


def test_code_for_one_size_is_run_at_that_size_alone(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = replace(SETTINGS, multiple=None)
    assert "the code is written for 3 microbatches of 4 samples; export the plan with 6" in refused(
        capsys, "--microbatches", "6", settings=fixed
    )
    assert fixed.in_microbatches(3) is fixed


def exported(plan: Plan) -> str:
    (line,) = [line for line in bundle(plan)["train.py"].splitlines() if "multiple=" in line]
    return line.strip(" ,")


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (tiny_plan("dp:2,tp:2", ("data_parallel", "dp"), ("megatron", "tp")), "multiple=2"),
        (tiny_plan("tp:2", ("megatron", "tp")), "multiple=1"),
        (tiny_plan("dp:2,tp:2", ("data_parallel", "dp")).shard("layers.*.mlp", {"batch": ("dp", "tp")}), "multiple=4"),
        # Dropout names the samples before this rank's; unequal parts are cut by their whole size.
        (tiny_plan("dp:2", ("data_parallel", "dp"), graph=with_dropout(tiny_graph())), "multiple=None"),
        (tiny_plan("dp:3", ("data_parallel", "dp")), "multiple=None"),
    ],
    ids=["dp and tp", "tp", "finer inside", "dropout", "uneven"],
)  # fmt: skip
def test_the_exporter_says_what_microbatches_may_be(plan: Plan, line: str) -> None:
    assert exported(plan) == line


def test_stages_may_be_run_in_other_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(SETTINGS, []).pipelining == "table"
    assert parse(SETTINGS, [], ("torch",)).pipelining == "torch"
    assert parse(SETTINGS, ["--pipelining", "table"], ("torch",)).pipelining == "table"
    assert "--pipelining" in refused(capsys, "--pipelining", "torch")
