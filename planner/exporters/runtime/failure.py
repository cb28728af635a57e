"""One rank fails, all end: soon, with one message, and with an exit status that is not 0.

A rank that waits in a collective for one that is gone may wait for ever, and says nothing about who is missing. So each
rank's process has a thread that gives a sign of life to the store of the process group, looks for that of the next
rank in the ring, and for a failure that another rank wrote there. The first to write a failure prints it, and every
rank that reads one ends its process, whatever its main thread waits for. What says all in one sentence, such as that a
file is missing, is told by rank 0, without the way through the code that led there.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import torch
import torch.distributed as dist

from .agreement import EveryRankError, PlainError

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
        self._failing = threading.Event()

    def __enter__(self) -> Watch:
        if self.world > 1:
            self._thread = threading.Thread(target=self._watch, args=(_store(self.patience),), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            if isinstance(error, PlainError):
                _say(str(error))
                raise SystemExit(1) from None
            return
        if error is not None:
            self._fail(error)
        # Whoever keeps the store stays until all are here.
        dist.barrier()
        self._over.set()
        self._thread.join()

    def _fail(self, error: BaseException) -> NoReturn:
        """Tell the others what went wrong here, and end."""
        if is_consequence(error) or (self.rank and isinstance(error, EveryRankError)):
            # The rank at fault is about to be found by who watches it, or rank 0 is about to tell for all: who reads
            # that ends this process, too.
            self._over.wait(2 * self.patience)
        self._failing.set()
        plain = isinstance(error, PlainError)
        where = "" if isinstance(error, EveryRankError) else f"rank {self.rank}: "
        text = f"{where}{error}" if plain else f"rank {self.rank} failed: {type(error).__name__}: {error}"
        try:
            store = _store(self.patience)
            self._tell(store, 0 if plain else self.rank, text, None if plain else error)
        except RuntimeError:
            traceback.print_exception(error)
            _say(text)
        _end()

    def _tell(self, store: Store, teller: int, text: str, error: BaseException | None = None) -> None:
        """Write a failure, and print it if this rank is the first and the one to tell it."""
        if not _written(store, f"{teller} {text}"):
            self._leave(store)
            return
        if error is not None:
            traceback.print_exception(error)
        if teller == self.rank:
            _say(text)
        there = self._leave(store, after=() if teller == self.rank else (teller,))
        if not there:
            _say(text)

    def _leave(self, store: Store, *, after: Sequence[int] = ()) -> bool:
        """Say that this rank ends, and return whether some others said so before, in time.

        Rank 0 may keep the store: it ends after all others, which say so with the last that they ask of the store.
        """
        until = monotonic() + 4 * self.period
        if self.rank == 0:
            after = range(self.world)
            store.set("ended 0", "")
        there = True
        while there and not all(store.check([f"ended {rank}"]) for rank in after):
            sleep(self.period / 20)
            there = monotonic() < until
        store.set(f"ended {self.rank}", "")
        return there or self.rank == 0

    def _watch(self, store: Store) -> None:
        beat, seen, since, reached = 0, b"", monotonic(), monotonic()
        following = (self.rank + 1) % self.world
        while not self._over.wait(self.period):
            now, beat = monotonic(), beat + 1
            try:
                store.set(f"beat {self.rank}", str(beat))
                if store.check([FAILURE]):
                    self._told(store)
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
                self._tell(store, self.rank, text)
                _end()

    def _told(self, store: Store) -> None:
        """End because of a failure that was written, unless the main thread is about to."""
        if self._failing.is_set():
            self._over.wait()
        teller, _, text = store.get(FAILURE).decode().partition(" ")
        if teller == str(self.rank):
            _say(text)
        self._leave(store)
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
