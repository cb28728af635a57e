"""Rank processes that run functions of a module on one process group, and return what they find."""

import importlib
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection

from tests.ranks import processes


def run_all(module: str, names: Sequence[str], world: int) -> list[list[object]]:
    """Return what each function gives on each rank, or the text of its error, by function and rank."""
    answers: list[list[object]] = []
    with processes(world, _serve, module, tuple(names)) as pipes:
        for name in names:
            assert all(pipe.poll(60) for pipe in pipes), f"{name} gives no answer on all ranks"
            answers.append([pipe.recv() for pipe in pipes])
    return answers


def _serve(rank: int, world: int, store: str, module: str, names: tuple[str, ...], pipe: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.set_default_dtype(torch.float64)
    functions = importlib.import_module(module)
    for name in names:
        try:
            pipe.send(getattr(functions, name)())
        except Exception:
            pipe.send(traceback.format_exc())
