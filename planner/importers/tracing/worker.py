"""The process of `planner.importers.tracer`: loads torch once, then forks for each config that is asked for."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from time import sleep

from ...core.graph import ModelSource
from ...core.json_text import digest
from ...errors import Diagnostic, PlannerError

MEMORY = 8 << 30
"""Bytes that a trace may take beyond what the loaded libraries do."""
LOOK_S = 0.05
MOST_LOOKS = 20


def main(pipe: Connection) -> None:
    """Answer requests until the other side is gone."""
    # Interrupting the program on the terminal is for the other side to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm = False
    while True:
        try:
            content, name = pipe.recv()
            if not warm:
                pipe.send((0.0, "loading torch and transformers"))
                _load()
                warm = True
        except EOFError:
            return
        child = os.fork()
        if child == 0:
            _answer(pipe, content, name)
            os._exit(0)
        if (status := _ended(child, pipe)) != 0:
            with suppress(BrokenPipeError):
                pipe.send(_died(name, status))


def _ended(child: int, pipe: Connection) -> int:
    """Return what a child ended with: 0, an exit code, or a signal as a negative number."""
    looks = 0
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        # What comes in now is the next request, and the child is about to end; or nobody is there any more.
        if pipe.poll(LOOK_S):
            sleep(LOOK_S)
            looks += 1
            if looks == MOST_LOOKS:
                os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(found[1])


def _load() -> None:
    """Load what every trace uses."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    # What a trace that fails writes into logs is told by its error.
    logging.disable(logging.CRITICAL)
    import torch.export
    import transformers
    import transformers.initialization
    import transformers.modeling_utils
    from transformers.models.auto import modeling_auto

    torch.set_num_threads(1)
    assert transformers
    assert modeling_auto


def _answer(pipe: Connection, content: str, name: str) -> None:
    """Trace one config; the messages end with a `ModelGraph` or a `Diagnostic`."""
    from ..aten.build import build
    from .hf import trace_config

    def stage(done: float, text: str) -> None:
        pipe.send((done, text))

    try:
        soft = _data_bytes() + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))
        program = trace_config(content, name, stage=stage)
        stage(0.7, "reading the graph")
        source = ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)
        pipe.send(build(program, source, name))
    except MemoryError:
        pipe.send(_too_large(name))
    except PlannerError as error:
        pipe.send(error.diagnostic)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        traceback.print_exc()
        message = f"Importing {name} stopped on an error that is not the model's: {type(error).__name__}: {error}"
        pipe.send(Diagnostic(code="model.import-fault", message=message, hint="The log says more.", subject=name))


def _data_bytes() -> int:
    """Return the bytes that count for the limit so far."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def _died(name: str, status: int) -> Diagnostic:
    why = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
    return Diagnostic(
        code="model.trace-died", message=f"The process that traced {name} {why}.",
        hint="See whether the machine has memory left.", subject=name,
    )  # fmt: skip


def _too_large(name: str) -> Diagnostic:
    return Diagnostic(
        code="model.trace-memory", message=f"Tracing {name} takes more than {MEMORY >> 30} GiB.",
        hint="Plan it with fewer layers.", subject=name,
    )  # fmt: skip


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
