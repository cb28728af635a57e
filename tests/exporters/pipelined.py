"""Test bundles that run the hand-written stages of `pipelined_net` by a schedule, and their proof."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.core.schedule import Schedule
from planner.exporters.explicit.bundle import runtime_of
from planner.proof.job import Job, RankResult
from planner.proof.ranks import Ranks
from planner.schedules import write_csv

NET = Path(__file__).with_name("pipelined_net.py").read_text("utf-8")
SEQUENCES, LENGTH, WIDTH, WORDS = 2, 6, 8, 10


@dataclass(frozen=True, kw_only=True)
class Run:
    """A schedule on stages cut at `cuts`; the ranks are those of the schedule times dp times tp.

    `torch` is a class of torch.distributed.pipelining to run it by, or nothing for the table.
    """

    schedule: Schedule
    cuts: tuple[int, ...]
    dp: int = 1
    tp: int = 1
    zero: int = 0
    skips: bool = True
    torch: str = ""

    @property
    def world(self) -> int:
        return self.schedule.ranks * self.dp * self.tp


def settings(mesh: dict[str, int], microbatches: int, regather: bool) -> str:
    sequences = SEQUENCES * microbatches
    lies = f"shape=({sequences}, {LENGTH}), dtype='int64', layout='[dp, -]', samples=0"
    return (
        "SETTINGS = Settings(\n"
        f"    mesh={mesh!r}, samples={sequences}, microbatches={microbatches}, dtype='float64', regather={regather},\n"
        "    inputs=(\n"
        f"        Feed(name='tokens', kind='integers', high={WORDS}, {lies}),\n"
        f"        Feed(name='labels', kind='next', next_of='tokens', ignored=-100, {lies}),\n"
        "    ),\n)\n"
    )


def whole(run: Run) -> dict[str, str]:
    """Return the bundle of the model in one piece on one rank."""
    text = (
        "from parallel import trainer\nfrom parallel.data import Feed\nfrom parallel.settings import Settings\n\n"
        "import model\n\n"
        f"MODEL = model.whole({run.cuts[-1]})\n"
        + settings({"pp": 1, "dp": 1, "tp": 1}, run.schedule.microbatches, False)
    )
    return {"train.py": text, "model.py": NET, **runtime_of((text, NET))}


def staged(run: Run) -> dict[str, str]:
    schedule = run.schedule
    by = f"by_torch(PIPELINE, {run.torch!r})" if run.torch else "by_table(PIPELINE)"
    module = "torch_pipeline" if run.torch else "pipeline"
    chains = ", ".join(f"Chain(stages={c.stages!r}, microbatches={c.microbatches!r})" for c in schedule.chains)
    text = (
        "from parallel import trainer\nfrom parallel.data import Feed\n"
        f"from parallel.{module} import {by.split('(')[0]}\n"
        "from parallel.stages import Chain, Pipeline\n"
        "from parallel.settings import Settings\n\n"
        "import model\n\n"
        f"STAGES, WIRES, SHARED = model.tables({run.cuts!r}, {run.zero}, skips={run.skips})\n"
        "PIPELINE = Pipeline(axis='pp', stages=STAGES, wires=WIRES,\n"
        f"    rows={tuple(write_csv(schedule).splitlines())!r},\n"
        f"    placement={schedule.placement!r}, chains=({chains},), shared=SHARED,\n"
        "    groups=(('dp',), ('tp',)))\n"
        f"MODEL = {by}\n"
        + settings({"pp": schedule.ranks, "dp": run.dp, "tp": run.tp}, schedule.microbatches, run.zero == 3)
    )
    return {"train.py": text, "model.py": NET, **runtime_of((text, NET))}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def results(
    run: Run, group: Ranks, single: Ranks, *, kind: str = "gradients", files: dict[str, str] | None = None
) -> tuple[RankResult | str, ...]:
    """Return what the ranks found against the model in one piece."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "staged", staged(run) if files is None else files)
        job = Job(
            kind=kind, bundle=write(folder / "whole", whole(run)), reference=folder / "reference.pt",
            write_reference=True, steps=3,
        )  # fmt: skip
        (answer,) = single.run(job)
        assert isinstance(answer, RankResult), answer
        return group.run(replace(job, bundle=folder / "staged", write_reference=False))


def results_here(run: Run, folder: Path, *, kind: str = "gradients") -> tuple[RankResult | str, ...]:
    """Return what ranks that are threads of this process found; `folder` is for the reference."""
    from planner.proof.worker import execute
    from tests.proof.threads import each_rank

    job = Job(kind=kind, bundle=folder, reference=folder / "reference.pt", write_reference=True, steps=3)
    (answer,) = each_rank(whole(run), 1, partial(execute, job=job))
    assert isinstance(answer, RankResult), answer
    return each_rank(staged(run), run.world, partial(execute, job=replace(job, write_reference=False)))


def worst(answers: tuple[RankResult | str, ...]) -> tuple[float, str]:
    """Return the largest error and whose it is; a rank that failed is an AssertionError."""
    assert all(isinstance(answer, RankResult) for answer in answers), answers
    return max(
        (error, f"{name} on rank {rank}")
        for rank, answer in enumerate(answers)
        if isinstance(answer, RankResult)
        for name, error in answer.errors
    )
