"""One rank fails, all end: soon, with one message, and with an exit status that is not 0.

A rank that waits in a collective for one that is gone may wait for ever, and says nothing about who is missing. So each
rank's process has a thread that gives a sign of life to the store of the process group, looks for that of the next
rank in the ring, and for a failure that another rank wrote there. The first to write a failure prints it, and every
rank that reads one ends its process, whatever its main thread waits for.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

FAILURE = "failure"


class Watch:
    """Watches the other ranks inside its block; does nothing where there are none.

    Parameters
    ----------
    patience
        Seconds without a sign of life after which a rank is taken for gone.
    """

    def __init__(self, *, patience: float) -> None:
        self.patience = patience
        self.period = min(1.0, patience / 10)
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        if self.world > 1:
            self._thread = threading.Thread(target=self._watch, args=(_store(self.patience),), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        if error is not None:
            self._fail(error)
        # Whoever keeps the store stays until all are here.
        dist.barrier()
        self._over.set()
        self._thread.join()

    def _fail(self, error: BaseException) -> NoReturn:
        """Tell the others what went wrong here, and end."""
        if is_consequence(error):
            # The rank at fault is about to be found by who watches it, who ends this process, too.
            self._over.wait(2 * self.patience)
        text = f"rank {self.rank} failed: {type(error).__name__}: {error}"
        try:
            first = _written(_store(self.patience), text)
        except RuntimeError:
            first = True
        if first:
            traceback.print_exception(error)
            _say(text)
        # The store may be kept here: leave the others the time to read it.
        self._over.wait(4 * self.period)
        _end()

    def _watch(self, store: Store) -> None:
        beat, seen, since, reached = 0, b"", monotonic(), monotonic()
        following = (self.rank + 1) % self.world
        while not self._over.wait(self.period):
            now, beat = monotonic(), beat + 1
            try:
                store.set(f"beat {self.rank}", str(beat))
                if store.check([FAILURE]):
                    _end()
                sign = store.get(f"beat {following}") if store.check([f"beat {following}"]) else b""
            except RuntimeError:
                if now - reached > self.patience / 2:
                    _say("the store of the process group is gone, and with it the rank or launcher that kept it")
                    _end()
                continue
            if sign != seen or now - reached > self.patience:
                # After a pause of its own, a process gives the others time to get over theirs.
                seen, since = sign, now
            reached = now
            if now - since > self.patience:
                text = (
                    f"rank {following} is gone: no sign of life for {self.patience:g} s; it was killed, or its machine"
                )
                if _written(store, text):
                    _say(text)
                self._over.wait(4 * self.period)
                _end()


def is_consequence(error: BaseException) -> bool:
    """Return whether an error says no more than that another rank did not communicate."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def join(timeout: timedelta) -> torch.device:
    """Join the process group that torchrun's variables describe, if there are any, and return where this rank computes.

    Parameters
    ----------
    timeout
        How long a collective may take.
    """
    gpu = torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if gpu:
        torch.cuda.set_device(local_rank)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo", timeout=timeout)
    return torch.device(f"cuda:{local_rank}" if gpu else "cpu")


def _store(patience: float) -> Store:
    """Return a connection of its own to the store: one that waits would keep the others from using it."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    limit = timedelta(seconds=patience)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        address, port, is_master=False, wait_for_workers=False, timeout=limit
    )
    # A launcher that keeps the store keeps it over restarts.
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"watch {start}", store)  # type: ignore[attr-defined]


def _written(store: Store, text: str) -> bool:
    """Return whether this rank was the first to write a failure."""
    return store.compare_set(FAILURE, "", text).decode() == text


def _say(text: str) -> None:
    print(f"Training stopped: {text}", file=sys.stderr, flush=True)


def _end() -> NoReturn:
    """End the process at once: threads that wait in a collective can't be asked to."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
