"""Where a run starts from and what it leaves: the options `--save`, `--resume` and `--init`.

`checkpoint` is imported when it is needed: `torch.distributed.checkpoint` takes seconds to load.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from .agreement import CheckpointError
from .feedback import residuals, restore
from .folders import State, latest, none_later
from .holdings import holdings, values
from .mesh import Mesh
from .optimizer import MasterAdamW
from .whole import fill

LATEST = "latest"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Checkpoints` to a command line."""
    group = parser.add_argument_group("checkpoints")
    group.add_argument("--save", metavar="FOLDER", type=Path, help="write checkpoints to a folder that all nodes share")
    group.add_argument(
        "--save-every", metavar="N", type=_count, help="save after every N steps; without it, only at the end"
    )
    group.add_argument("--keep", metavar="N", type=_count, help="keep the last N checkpoints; without it, all")
    group.add_argument(
        "--resume",
        metavar="CHECKPOINT",
        nargs="?",
        const=LATEST,
        help="go on from a checkpoint, or from the latest in --save if there is one; it may come from other ranks, "
        "another mesh and another plan of the same model",
    )
    group.add_argument(
        "--init",
        metavar="PATH",
        type=Path,
        help="start with the weights of the unsharded model (.safetensors, a folder of them, or a state dict that "
        "torch saved), or with those of a checkpoint",
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """Which checkpoints a run reads and writes.

    Parameters
    ----------
    save
        Folder to write to; None to write none.
    every
        Steps from one to the next; None for one at the end.
    keep
        How many stay; None for all.
    resume
        A checkpoint, or `latest`.
    init
        File or folder with the weights to start with.
    """

    save: Path | None = None
    every: int | None = None
    keep: int | None = None
    resume: str | None = None
    init: Path | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Checkpoints:
        """Return what the command line asks for; an option that lacks the one that it needs is a wrong usage."""
        chosen = cls(
            save=arguments.save,
            every=arguments.save_every,
            keep=arguments.keep,
            resume=arguments.resume,
            init=arguments.init,
        )
        if chosen.save is None and (chosen.every or chosen.keep or chosen.resume == LATEST):
            parser.error("--save-every, --keep and --resume latest need --save FOLDER")
        return chosen

    def begin(self, model: nn.Module, optimizer: MasterAdamW, mesh: Mesh, fixed: State) -> dict[str, Any]:
        """Fill model and optimizer, and return the state to go on from: `step`, and what else was saved with it.

        Parameters
        ----------
        fixed
            What must be as it was when the checkpoint was written, such as the seed of the data.

        Raises
        ------
        CheckpointError
            When there is nothing that fits.
        """
        if self.resume == LATEST:
            found = None if self.save is None else latest(self.save, mesh)
        else:
            found = None if self.resume is None else Path(self.resume)
        state: dict[str, Any] = {"step": 0}
        if found is not None:
            from .checkpoint import load

            state = load(found, holdings(model, optimizer), mesh)
            _same(found, fixed, state)
            optimizer.publish()
            restore(found, model, mesh)
        elif self.init is not None:
            fill(self.init, values(model, optimizer), mesh)
            optimizer.publish()
        if self.save is not None:
            none_later(self.save, state["step"], mesh)
        if mesh.rank == 0 and (found or self.init):
            print(f"starting from {found or self.init} at step {state['step']}", flush=True)
        return state

    def after(
        self, model: nn.Module, optimizer: MasterAdamW, mesh: Mesh, state: State, *, last: bool = False
    ) -> Path | None:
        """Write a checkpoint if one is due, and return its folder.

        Parameters
        ----------
        state
            `step`, the number of steps done, and what else is needed to go on.
        last
            Whether the run ends here.
        """
        step = state["step"]
        due = last or (self.every is not None and step % self.every == 0)
        if self.save is None or not due:
            return None
        from .checkpoint import save

        held = holdings(model, optimizer) | residuals(model, mesh)
        return save(self.save, step, held, state, mesh, keep=self.keep)


def _same(checkpoint: Path, fixed: State, state: Mapping[str, Any]) -> None:
    for name, value in fixed.items():
        if state.get(name) != value:
            raise CheckpointError(
                f"{checkpoint} is of a run with {name} {state.get(name)}, and this one has {value}: they would not see "
                f"the same data; give it the same --{name}"
            )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
