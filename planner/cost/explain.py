"""The explaining trees: every number opened down to what it is made of.

Invariant (a test): an item whose children have its unit is their sum; children of another unit are its inputs. The
trees are built from the same values as the numbers of `step_time` and `memory`, and their totals are equal to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..core.cluster import DeviceSpec
from ..core.plan import Precision
from ..core.report import PHASES, CollectiveRow, CostItem
from .compute import KernelTime, backward_time, forward_time, optimizer_traffic, repeated_time
from .host import Transfer
from .host_tree import host_seconds_tree
from .memory import Held, memory_bytes
from .step_time import StepSeconds
from .work import NodeWork

OUTSIDE = "outside the layers"


def step_time_tree(
    parts: StepSeconds,
    works: tuple[NodeWork, ...],
    rows: tuple[CollectiveRow, ...],
    microbatches: int,
    precision: Precision,
    device: DeviceSpec,
    *,
    transfers: tuple[Transfer, ...] = (),
) -> CostItem:
    """Return the tree of the step time."""

    def compute(name: str, seconds: Callable[[NodeWork, Precision, DeviceSpec], KernelTime]) -> CostItem:
        items = [(work.title, _kernel(work, seconds(work, precision, device), microbatches, device)) for work in works]
        return _total(name, "s", "sum over the operators", _by_scope((s, i) for s, i in items if i.value))

    again = compute("compute, forward again", repeated_time)
    children = (
        compute("compute, forward", forward_time),
        compute("compute, backward", backward_time),
        *((again,) if again.value else ()),
        _communication("communication of activations", rows, parameter=False),
        _exposed(parts, rows),
        *_reductions(parts, rows),
        *((_packing(parts, device),) if parts.copies else ()),
        *((host_seconds_tree(parts, transfers),) if transfers else ()),
        CostItem(
            name="optimizer",
            value=parts.optimizer,
            unit="s",
            formula=f"{optimizer_traffic(precision)} B read and written for each parameter of the device ÷ "
            f"({device.memory_bandwidth / 1e12:g} TB/s · {device.memory_efficiency:g})",
        ),
    )
    return _total(
        "step time",
        "s",
        "compute + exposed communication + optimizer; parameters are fetched behind the computation of the same phase"
        + (", as those from the host are" if transfers else ""),
        children,
    )


def memory_tree(things: Iterable[Held]) -> CostItem:
    """Return the tree of the memory of a device."""
    listed = tuple(things)
    totals = memory_bytes(listed)
    children = []
    for item in totals:
        inside = _by_scope((t.scope, _thing(t)) for t in listed if t.item == item and t.total)
        children.append(_total(item, "B", "sum" if inside else "nothing", inside, value=totals[item]))
    return _total("memory", "B", "sum of all items, as if all were there at once", children)


def _thing(thing: Held) -> CostItem:
    layers = f"{thing.count} layers × {thing.nbytes:,.0f} B; " if thing.count > 1 else ""
    return CostItem(name=thing.name, value=thing.total, unit="B", formula=layers + thing.note)


def _kernel(work: NodeWork, kernel: KernelTime, microbatches: int, device: DeviceSpec) -> CostItem:
    times = work.count * microbatches
    layers = f"{work.count} layers × " if work.title else ""
    device_of = "one device" if work.even else "the device with the largest parts"
    flops = f"on {device_of}, one layer, one microbatch"
    inputs = (
        CostItem(name="FLOPs", value=kernel.flops, unit="FLOP", formula=flops),
        CostItem(name="bytes", value=kernel.nbytes, unit="B", formula="read and written"),
        CostItem(name="peak", value=kernel.peak, unit="FLOP/s"),
        CostItem(name="memory bandwidth", value=device.memory_bandwidth, unit="B/s"),
    )
    return CostItem(
        name=work.node.name,
        value=kernel.seconds * times,
        unit="s",
        formula=f"{layers}{microbatches} microbatches × max(FLOPs/(peak · {kernel.efficiency:g}), "
        f"bytes/(bandwidth · {device.memory_efficiency:g}), {device.kernel_floor_s:g} s)",
        children=inputs,
    )


def _communication(name: str, rows: Iterable[CollectiveRow], *, parameter: bool, reduces: bool = False) -> CostItem:
    chosen = [row for row in rows if row.parameter == parameter and row.reduces == reduces]
    phases = []
    for phase in PHASES[int(reduces) :]:
        inside = _by_scope((row.scope, _row(row)) for row in chosen if row.phase == phase)
        if phase != "update" or inside:
            phases.append(_total(phase, "s", "sum over the collectives", inside))
    return _total(name, "s", " + ".join(phase.name for phase in phases), phases)


def _row(row: CollectiveRow) -> CostItem:
    return CostItem(
        name=f"{row.value}: {row.kind}",
        value=row.seconds * row.count,
        unit="s",
        formula=f"{row.count} × {row.seconds:.3g} s over {'·'.join(row.axes)} ({row.group_size} ranks), "
        f"{row.source} → {row.target}",
        children=(
            CostItem(name="payload", value=float(row.payload_bytes), unit="B"),
            CostItem(name="received by a rank", value=row.wire_bytes, unit="B"),
        ),
    )


def _exposed(parts: StepSeconds, rows: tuple[CollectiveRow, ...]) -> CostItem:
    communication = _communication("communication", rows, parameter=True)
    hidden = [
        CostItem(name=f"hidden, {phase}", value=-seconds, unit="s", formula="−min(communication, compute) of the phase")
        for phase, seconds in (("forward", parts.hidden_forward), ("backward", parts.hidden_backward))
    ]
    return _total(
        "exposed communication of parameters", "s", "what does not hide behind computation", (communication, *hidden)
    )


def _reductions(parts: StepSeconds, rows: tuple[CollectiveRow, ...]) -> tuple[CostItem, ...]:
    """Return the item of the reductions of gradients; none where there are none."""
    if not any(row.reduces for row in rows):
        return ()
    communication = _communication("communication", rows, parameter=True, reduces=True)
    hidden = CostItem(
        name="hidden, backward", value=-(parts.hidden_gradients + parts.hidden_deferred) or 0.0, unit="s",
        formula="−what a bucket does while backward makes the next ones ready; 0 without overlap",
    )  # fmt: skip
    return (
        _total(
            "exposed gradient communication", "s", "what does not hide behind the rest of backward",
            (communication, hidden),
        ),
    )  # fmt: skip


def _packing(parts: StepSeconds, device: DeviceSpec) -> CostItem:
    return CostItem(
        name="packing of gradients", value=parts.copies, unit="s",
        formula="for each copy into a bucket, bytes read and written ÷ "
        f"({device.memory_bandwidth / 1e12:g} TB/s · {device.memory_efficiency:g}), at least "
        f"{device.kernel_floor_s:g} s",
    )  # fmt: skip


def _by_scope(items: Iterable[tuple[str, CostItem]]) -> tuple[CostItem, ...]:
    groups: dict[str, list[CostItem]] = {}
    for scope, item in items:
        groups.setdefault(scope, []).append(item)
    return tuple(_total(scope or OUTSIDE, items[0].unit, "sum", items) for scope, items in groups.items())


def _total(name: str, unit: str, formula: str, children: Iterable[CostItem], *, value: float | None = None) -> CostItem:
    listed = tuple(children)
    total = sum(child.value for child in listed) if value is None else value
    return CostItem(name=name, value=total, unit=unit, formula=formula, children=listed)
