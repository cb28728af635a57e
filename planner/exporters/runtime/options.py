"""The command line of a bundle's `train.py`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from .rate import SCHEDULES
from .resume import Checkpoints, add_options
from .settings import Settings
from .tokens import TYPES

DTYPES = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Options:
    """What the command line says, field by field as `--help` tells it."""

    steps: int
    seed: int
    data: tuple[str, ...]
    data_type: str
    lr: float
    schedule: str
    warmup: int
    lr_end: float
    weight_decay: float
    betas: tuple[float, float]
    clip: float | None
    dtype: str
    microbatches: int
    compile: bool
    pipelining: str
    log_every: int
    log_file: str | None
    profile: tuple[int, int] | None
    profile_folder: str
    timeout: float
    patience: float
    checkpoints: Checkpoints


def parse(settings: Settings, arguments: Sequence[str] | None = None, others: Sequence[str] = ()) -> Options:
    """Return the options; `--help` and mistakes end the process.

    Parameters
    ----------
    arguments
        In place of the command line's.
    others
        What else can run the stages of a pipeline than its table.
    """
    parser = _parser(settings, others)
    namespace = parser.parse_args(arguments)
    found = {name: value for name, value in vars(namespace).items() if name in Options.__dataclass_fields__}
    found |= {"data": tuple(namespace.data), "betas": tuple(namespace.betas)}
    options = Options(**found, checkpoints=Checkpoints.of(namespace, parser))
    for name, least in (("steps", 0), ("warmup", 0), ("log_every", 1), ("microbatches", 1)):
        if found[name] < least:
            parser.error(f"--{name.replace('_', '-')} is at least {least}, not {found[name]}")
    if options.timeout <= 0 or options.patience <= 0:
        parser.error("--timeout and --patience are seconds, more than 0")
    try:
        settings.in_microbatches(options.microbatches)
    except ValueError as problem:
        parser.error(f"--microbatches: {problem}")
    return options


def _parser(settings: Settings, others: Sequence[str]) -> argparse.ArgumentParser:
    planned = settings.microbatches
    size = (
        f"{settings.samples} sequences of {settings.tokens} tokens"
        if settings.tokens
        else f"{settings.samples} samples"
    )
    mesh = " × ".join(f"{axis} {count}" for axis, count in settings.mesh.items())
    parser = _Parser(
        description=f"Train the model by its plan: ranks {mesh}, {size} a step. Start it on every rank with torchrun, "
        "or as the files in launch/ do.",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--steps", type=int, default=20, help="optimizer steps of the whole run (%(default)s)")
    run.add_argument("--seed", type=int, default=0, help="of initial values and of the order of the data (%(default)s)")

    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", nargs="+", default=(), metavar="FILE",
        help="files of tokens, raw and without a header; synthetic batches without any",
    )  # fmt: skip
    data.add_argument(
        "--data-type", default=TYPES[0], choices=TYPES, help="what a token is in these files (%(default)s)"
    )

    adam = parser.add_argument_group("optimizer (AdamW)")
    adam.add_argument("--lr", type=float, default=3e-4, help="learning rate, the highest one (%(default)s)")
    adam.add_argument(
        "--schedule", default=SCHEDULES[0], choices=SCHEDULES, help="how it goes on after the warm-up (%(default)s)"
    )
    adam.add_argument(
        "--warmup", type=int, default=0, metavar="STEPS", help="steps in which it rises to --lr (%(default)s)"
    )
    adam.add_argument(
        "--lr-end", type=float, default=0.0, metavar="LR", help="where a line or a cosine leads (%(default)s)"
    )
    adam.add_argument("--weight-decay", type=float, default=0.1, help="decoupled weight decay (%(default)s)")
    adam.add_argument(
        "--betas", type=float, nargs=2, default=(0.9, 0.95), metavar=("B1", "B2"), help="of the moments (0.9 0.95)"
    )
    adam.add_argument(
        "--clip",
        type=float,
        default=None,
        metavar="NORM",
        help="largest norm of all gradients together; without it, any",
    )

    compute = parser.add_argument_group("computation")
    compute.add_argument(
        "--dtype", default=settings.dtype, choices=DTYPES,
        help="of parameters and computation; below float32 the optimizer keeps a float32 copy, and float16 scales "
        "the loss (%(default)s)",
    )  # fmt: skip
    compute.add_argument(
        "--microbatches",
        type=int,
        default=planned,
        metavar="N",
        help="parts of a step that run one after the other (%(default)s)",
    )
    if others:
        compute.add_argument(
            "--pipelining", default=others[0], choices=("table", *others),
            help="what runs the stages: the table of actions, or torch.distributed.pipelining (%(default)s)",
        )  # fmt: skip
    else:
        parser.set_defaults(pipelining="table")
    compute.add_argument("--compile", action="store_true", help="compile the model with torch.compile")

    report = parser.add_argument_group("reports")
    report.add_argument(
        "--log-every", type=int, default=1, metavar="STEPS", help="steps between two lines of the log (%(default)s)"
    )
    report.add_argument("--log-file", default=None, metavar="FILE", help="append the log here, a JSON object a line")
    report.add_argument(
        "--profile", type=_window, default=None, metavar="FIRST:COUNT",
        help="profile COUNT steps from step FIRST on, into a trace of each rank",
    )  # fmt: skip
    report.add_argument("--profile-folder", default="profile", metavar="FOLDER", help="where traces go (%(default)s)")

    add_options(parser)

    failure = parser.add_argument_group("failure")
    failure.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="seconds a collective may take (%(default)s)"
    )
    failure.add_argument(
        "--patience", type=float, default=15.0, metavar="S",
        help="seconds without a sign of life after which a rank is taken for gone, and all ranks end (%(default)s)",
    )  # fmt: skip
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong once, and not on every rank."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        if os.environ.get("RANK", "0") != "0":
            self.exit(2)
        super().error(message)


def _window(text: str) -> tuple[int, int]:
    first, _, count = text.partition(":")
    try:
        window = int(first), int(count)
    except ValueError:
        window = -1, 0
    if window[0] < 0 or window[1] < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no window of steps such as 10:3")
    return window
