"""Rank processes that run a function of a test, or a bundle's training, and may be killed."""

from __future__ import annotations

import importlib
import json
import math
import os
import pickle
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from types import ModuleType, TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Training:
    """What a bundle's training left: loss and record of the log by step, codes and output by rank.

    The code of a rank that did not end by itself is None. Seconds are those from the first rank's end to the last's.
    """

    losses: dict[int, float]
    records: dict[int, dict[str, Any]]
    codes: tuple[int | None, ...]
    texts: tuple[str, ...]
    seconds: float


class RankProcesses:
    """Forks ranks from one process that has loaded torch; a context manager that ends it."""

    def __enter__(self) -> RankProcesses:
        self._folder = tempfile.TemporaryDirectory()
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.exporters.zygote", self._folder.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._zygote.stdin
        assert self._zygote.stdout
        self._zygote.stdin.close()
        self._zygote.stdout.close()
        self._zygote.wait(10)
        self._folder.cleanup()

    def run(self, world: int, function: Callable[..., Any], *arguments: Any, patience: float = 120.0) -> list[Any]:
        """Return what `function(rank, *arguments)` gives on each of `world` ranks that are joined by gloo."""
        with tempfile.TemporaryDirectory() as store:
            codes, texts, _ = self._forked(
                _joined, [(rank, world, f"{store}/store", function, arguments) for rank in range(world)], patience
            )
        assert set(codes) == {0}, "\n".join(texts)
        return [pickle.loads((Path(self._folder.name) / f"{rank}.answer").read_bytes()) for rank in range(world)]

    def train(
        self,
        world: int,
        bundle: Path,
        *options: str,
        victim: int | None = None,
        step: int = 0,
        saving: bool = False,
        how: str = "killed",
        patience: float = 120.0,
        log: bool = True,
    ) -> Training:
        """Run a bundle's training, as a launcher would that does not end the others when one rank ends.

        Parameters
        ----------
        victim
            Rank that gets SIGKILL in the middle of a step of this run, or of saving after the step before.
        how
            What comes over it in the step instead: it is `terminated` or `stopped` by the signal, `raises`, `waits` for
            ever, gets `infinite` gradients, or finds its disk `full`.
        log
            Whether the run keeps a log, where there are its losses.
        """
        port = _free_port()
        path = Path(self._folder.name) / "log.jsonl"
        path.unlink(missing_ok=True)
        options = (*options, "--log-file", str(path)) if log else options
        codes, texts, seconds = self._forked(
            _train,
            [(r, world, port, bundle, options, (step, saving, how) if r == victim else None) for r in range(world)],
            patience,
        )
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        records = {record["step"]: record for record in map(json.loads, lines)}
        losses = {step: record["loss"] for step, record in records.items()}
        return Training(losses, records, codes, texts, seconds)

    def selfcheck(
        self, world: int, bundle: Path, dtype: str = "float64"
    ) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
        """Run a bundle's `selfcheck.py` on the ranks of a launcher; return codes and output by rank."""
        port = _free_port()
        codes, texts, _ = self._forked(_selfcheck, [(rank, world, port, bundle, dtype) for rank in range(world)], 120.0)
        return codes, texts

    def _forked(
        self, function: Callable[..., Any], arguments: list[tuple[Any, ...]], patience: float
    ) -> tuple[tuple[int | None, ...], tuple[str, ...], float]:
        assert self._zygote.stdin
        assert self._zygote.stdout
        pickle.dump((function, arguments, patience), self._zygote.stdin)
        self._zygote.stdin.flush()
        codes, seconds = pickle.load(self._zygote.stdout)
        texts = ((Path(self._folder.name) / f"{r}.txt").read_text("utf-8") for r in range(len(arguments)))
        return codes, tuple(texts), seconds


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def imported(folder: Path) -> ModuleType:
    """Import a bundle's `train` module, in place of another bundle's."""
    for name in [n for n in sys.modules if n in {"model", "stages", "train", "parallel"} or n.startswith("parallel.")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module("train")
    finally:
        sys.path.remove(str(folder))


def _joined(rank: int, world: int, store: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    import torch.distributed as dist

    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    return function(rank, *arguments)


def _train(
    rank: int,
    world: int,
    port: int,
    bundle: Path,
    options: tuple[str, ...],
    killed: tuple[int, bool, str] | None,
) -> None:
    _launched(rank, world, port)
    sys.argv = ["train.py", *options]
    train: Any = imported(bundle)
    if killed:
        _kill_in(*killed)
    train.main(train.MODEL, train.SETTINGS)


def _selfcheck(rank: int, world: int, port: int, bundle: Path, dtype: str) -> None:
    _launched(rank, world, port)
    sys.argv = ["selfcheck.py", "--device", "cpu", "--dtype", dtype]
    sys.path.insert(0, str(bundle))
    runpy.run_path(str(bundle / "selfcheck.py"), run_name="__main__")


def _launched(rank: int, world: int, port: int) -> None:
    """Tell this process what a launcher tells it."""
    os.environ |= {"RANK": f"{rank}", "WORLD_SIZE": f"{world}", "LOCAL_RANK": f"{rank}"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}


def _befall(how: str) -> None:
    match how:
        case "killed" | "terminated" | "stopped":
            number = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM, "stopped": signal.SIGSTOP}[how]
            os.kill(os.getpid(), number)
        case "full":
            # No file gets any longer, as on a disk that is full.
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        case "raises":
            raise ArithmeticError("no more numbers")
        case "waits":
            sleep(1000)


def _kill_in(step: int, saving: bool, how: str) -> None:
    """Make this process end in a step, or come to other harm."""
    from torch.distributed.checkpoint.filesystem import FileSystemWriter

    trainer: Any = sys.modules["parallel.trainer"]
    count, run_step, write = 0, trainer.loss_of_step, FileSystemWriter.write_data

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        now = count == step + 1 and not saving
        if now:
            _befall(how)
        loss = run_step(*arguments, **options)
        if now and how == "infinite":
            next(p.grad for p in arguments[0].parameters() if p.grad is not None).fill_(math.inf)
        return loss

    def half(*arguments: Any) -> Any:
        written = write(*arguments)
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    trainer.loss_of_step = dying
    if saving:
        FileSystemWriter.write_data = half  # type: ignore[method-assign]
