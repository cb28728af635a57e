"""What `train.py` does: read the command line, join the ranks, build the model, train it, and end in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from .agreement import StartError, started
from .data import Source
from .failure import Watch, join
from .folders import hold_writable
from .in_stages import RunsInStages
from .mesh import Mesh
from .optimizer import MasterAdamW
from .options import Options, parse
from .parameters import initialise
from .profiling import profiled
from .progress import Progress
from .rate import Rate
from .scaling import LossScale
from .settings import Settings
from .signals import Stop
from .tokens import TokenFiles, token_feeds
from .trainer import State, Training, synthetic

Build = Callable[[Mesh], nn.Module]


def main(build: Build, settings: Settings, arguments: Sequence[str] | None = None, **others: Build) -> None:
    """Train as the command line says.

    Parameters
    ----------
    build
        Makes this rank's part of the model.
    arguments
        In place of the command line's.
    others
        What else can run the model's stages, by the name that `--pipelining` takes.

    Raises
    ------
    SystemExit
        With 128 + its number where a signal ended training before its last step.
    """
    options = parse(settings, arguments, tuple(others))
    build = others.get(options.pipelining, build)
    settings = settings.in_microbatches(options.microbatches)
    # Tensors that the model makes itself, in its own type.
    torch.set_default_dtype(getattr(torch, options.dtype))
    timeout = timedelta(seconds=options.timeout)
    device = join(timeout)
    with Watch(patience=options.patience):
        mesh, source = started(lambda: _prepared(settings, options, device))
        mesh.timeout = timeout
        number = run(build, settings, options, mesh, source)
    if dist.is_initialized():
        dist.destroy_process_group()
    if number:
        raise SystemExit(128 + number)


def _prepared(settings: Settings, options: Options, device: torch.device) -> tuple[Mesh, Source]:
    """Return what can be had, and see to what can be seen to, before anything takes time."""
    mesh = Mesh(settings.mesh, device)
    if options.checkpoints.save is not None:
        hold_writable(options.checkpoints.save, mesh.rank)
    if options.profile is not None:
        hold_writable(Path(options.profile_folder), mesh.rank)
    if options.log_file is not None and mesh.rank == 0:
        Path(options.log_file).open("a").close()
    return mesh, source_of(settings, options)


def run(build: Build, settings: Settings, options: Options, mesh: Mesh, source: Source) -> int:
    """Train, and return the signal that ended training early, or 0."""
    mesh.compute = getattr(torch, options.dtype)
    model = build(mesh).to(mesh.compute)
    initialise(model, mesh, seed=options.seed)
    if isinstance(model, RunsInStages):
        model.spread()
        if options.compile:
            raise StartError("--compile is for models in one piece: stages are run with parts of their backward")
    elif options.compile:
        model.compile()
    training = Training(
        model,
        settings,
        mesh,
        MasterAdamW(model, mesh, betas=options.betas, weight_decay=options.weight_decay),
        rate=Rate(options.lr, options.steps, options.schedule, options.warmup, options.lr_end),
        state=State(seed=options.seed, scale=LossScale() if options.dtype == "float16" else None),
        clip=options.clip,
        checkpoints=options.checkpoints,
    )
    progress = Progress(settings, mesh, dtype=options.dtype, file=options.log_file)
    with Stop(mesh.device) as stop, profiled(options.profile, options.profile_folder, mesh) as profile:
        while training.state.step < options.steps:
            last = training.state.step + 1 == options.steps
            tell = training.state.step % options.log_every == 0 or last
            taken = training.step(source, norm=tell)
            progress.passed()
            if tell:
                state = training.state
                progress.write(
                    step=taken.step, loss=taken.loss, norm=taken.norm, rate=taken.rate,
                    scale=state.scale, skipped=state.skipped,
                )  # fmt: skip
            profile()
            number = stop.agreed()
            training.save(last=last or number > 0)
            if number and not last:
                if mesh.rank == 0:
                    print(f"ended by signal {number} after step {taken.step}", flush=True)
                return number
    return 0


def source_of(settings: Settings, options: Options) -> Source:
    """Return where batches come from."""
    if not options.data:
        return synthetic(settings, options.seed)
    tokens, _ = token_feeds(settings.inputs)
    files = TokenFiles(options.data, dtype=options.data_type, length=tokens.shape[1], seed=options.seed)
    return lambda _, samples: files.batch(samples, settings.inputs)
