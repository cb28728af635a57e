"""A process that has loaded torch and forks rank processes: `python -m tests.exporters.zygote FOLDER < requests`.

A request is a pickle of (function, arguments by rank, seconds of patience), its answer what `_awaited` gives. What
ranks give, print or raise goes to FOLDER.
"""

import gc
import os
import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    # What ranks would load one by one, which takes seconds.
    import torch
    import torch._dynamo
    import torch.distributed.checkpoint

    torch.set_num_threads(1)
    gc.freeze()
    while True:
        try:
            function, arguments, patience = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        ranks = [_forked(folder / str(rank), function, own) for rank, own in enumerate(arguments)]
        pickle.dump(_awaited(ranks, patience), sys.stdout.buffer)
        sys.stdout.flush()


def _forked(text: Path, function: Any, arguments: tuple[Any, ...]) -> int:
    """Fork a rank whose output and answer go to a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        target = os.open(text.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        answer = function(*arguments)
        text.with_suffix(".answer").write_bytes(pickle.dumps(answer))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _awaited(ranks: list[int], patience: float) -> tuple[tuple[int | None, ...], float]:
    """Return the exit code of every rank, negative for a signal, and the seconds from the first end to the last.

    The code is None for a rank that had to be killed.
    """
    first = 0.0
    codes: dict[int, int | None] = {}
    deadline = time.monotonic() + patience
    while len(codes) < len(ranks):
        for pid in ranks:
            if pid not in codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    codes[pid] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > deadline:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    codes[pid] = None
        if codes and not first:
            first = time.monotonic()
        time.sleep(0.01)
    return tuple(codes[pid] for pid in ranks), time.monotonic() - first


if __name__ == "__main__":
    main(Path(sys.argv[1]))
