"""What runs in the process of a proof: prove the plan, and tell the server how far it is."""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Mapping
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread

from planner import Plan, compose
from planner.errors import Diagnostic, PlannerError
from planner.proof import Proof, prove

Message = tuple[float, str] | Diagnostic | Proof


def work(
    plan_text: str, ranks: int, bundle: Callable[[Plan], Mapping[str, str]] | None, pipe: Connection, folder: str
) -> None:
    """Prove the plan of a plan file; the messages end with a `Proof` or a `Diagnostic`.

    Parameters
    ----------
    bundle
        Plan → files to prove, if not the exporter.
    folder
        Where temporary files go.
    """
    # A group of its own, so that the ranks can be killed together with this process.
    os.setsid()
    Thread(target=_end_with_parent, daemon=True).start()
    tempfile.tempdir = os.environ["TMPDIR"] = folder

    def progress(done: float, message: str) -> None:
        pipe.send((done, message))

    try:
        plan = compose.read_plan(plan_text)
        pipe.send(prove(plan, ranks=ranks, progress=progress, export=bundle or compose.bundle))
    except PlannerError as error:
        pipe.send(error.diagnostic)
    except Exception as error:
        traceback.print_exc()
        message = f"The proof stopped on an error that is not the plan's: {type(error).__name__}: {error}"
        pipe.send(Diagnostic(code="job.fault", message=message, hint="The server's log says more."))


def _end_with_parent() -> None:
    """Kill the whole group when the server is gone, however it went."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)
