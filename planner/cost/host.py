r"""What the host does: bytes that lie there, parameters that come from there, and the optimizer's work there.

```text
a copy        bytes / (bandwidth · efficiency) of the link between host and device, in either direction
the update    bytes that Adam reads and writes / memory bandwidth of the host, a device's share
```

A parameter that is stored on the host is copied once a use, that is once a microbatch forward and once for each time
that backward asks for it, as it is stored. The update waits for the gradients, and the next step for it: nothing hides
it. Sources: Ren et al. 2021, "ZeRO-Offload"; Rajbhandari et al. 2021, "ZeRO-Infinity", which overlaps copies with the
computation of other layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..core.assignment import Fanout, ParameterLayout, Scope, TrainingGraph
from ..core.cluster import HostSpec
from ..core.plan import Precision
from ..core.report import PHASES
from ..core.segments import Segments
from ..core.tensor import DTYPE_BYTES
from .compute import optimizer_traffic

HOST = "host"
FETCH, GRADIENT, VALUES, UPDATE = "fetch", "gradient to the host", "new values", "update on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What goes between host and device for one parameter, or is worked on there, in one phase.

    Parameters
    ----------
    what
        `FETCH`, `GRADIENT`, `VALUES` or `UPDATE`.
    nbytes
        Bytes of one; for an update those that are read and written.
    count
        How often in a step, layers and microbatches counted.
    """

    scope: str
    phase: str
    parameter: str
    what: str
    nbytes: float
    seconds: float
    count: int

    @property
    def total(self) -> float:
        """Seconds of all together."""
        return self.seconds * self.count


def transfers(training: TrainingGraph, microbatches: int, precision: Precision, host: HostSpec) -> tuple[Transfer, ...]:
    """Return everything that the host gives, takes or does in a step."""
    found: list[Transfer] = []
    for index, scope in enumerate(training.scopes):
        found += _fetches(training, scope, index, microbatches, precision, host)
        for placed in scope.assembly.parameters:
            if placed.parameter.trainable:
                found += _updates(training, scope, placed, precision, host)
    return tuple(sorted(found, key=lambda transfer: PHASES.index(transfer.phase)))


def transfer_seconds(listed: Iterable[Transfer], phase: str) -> float:
    """Return the seconds of one phase."""
    return sum(transfer.total for transfer in listed if transfer.phase == phase)


def elements(training: TrainingGraph, placed: ParameterLayout, *, optimizer: bool) -> int:
    """Return how many elements of a parameter, or of its optimizer's state, a rank has."""
    layout = placed.optimizer if optimizer else placed.storage
    shape = placed.parameter.meta.concrete(training.assignment.symbols)
    return layout.local_elements(shape, training.assignment.mesh)


def _fetches(
    training: TrainingGraph, scope: Scope, index: int, microbatches: int, precision: Precision, host: HostSpec
) -> Iterator[Transfer]:
    segments = Segments.of(scope.assembly, index)
    for fanout in scope.fanouts:
        placed = scope.assembly.parameter(fanout.value)
        if not fanout.host or placed is None:
            continue
        size = float(elements(training, placed, optimizer=False) * DTYPE_BYTES[precision.compute])
        seconds = size / (host.bandwidth * host.efficiency)
        for phase, times in (("forward", 1), ("backward", _again(fanout, segments))):
            if times:
                yield Transfer(
                    scope=scope.assembly.title, phase=phase, parameter=fanout.value, what=FETCH, nbytes=size,
                    seconds=seconds, count=times * scope.assembly.count * microbatches,
                )  # fmt: skip


def _again(fanout: Fanout, segments: Segments) -> int:
    """Return how often backward fetches a parameter: once with the segment that reads it, or for each reader."""
    return min(1, len(fanout.again)) if segments.around(fanout) else len(fanout.again)


def _updates(
    training: TrainingGraph, scope: Scope, placed: ParameterLayout, precision: Precision, host: HostSpec
) -> Iterator[Transfer]:
    count, link = elements(training, placed, optimizer=True), host.bandwidth * host.efficiency
    update = next(u for u in scope.updates if u.parameter == placed.parameter.name)

    def one(what: str, nbytes: float, bandwidth: float) -> Transfer:
        return Transfer(
            scope=scope.assembly.title, phase="update", parameter=placed.parameter.name, what=what, nbytes=nbytes,
            seconds=nbytes / bandwidth, count=scope.assembly.count,
        )  # fmt: skip

    if placed.optimizer_place == HOST:
        yield one(GRADIENT, float(count * DTYPE_BYTES[precision.gradient]), link)
        yield one(UPDATE, float(count * optimizer_traffic(precision)), host.memory_bandwidth)
    stored = elements(training, placed, optimizer=False) * DTYPE_BYTES[precision.compute]
    if placed.optimizer_place == HOST and (placed.place != HOST or update.values.steps):
        yield one(VALUES, float(count * DTYPE_BYTES[precision.compute]), link)
    if placed.place == HOST and (placed.optimizer_place != HOST or update.values.steps):
        yield one(VALUES, float(stored), link)
