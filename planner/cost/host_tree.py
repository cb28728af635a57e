"""The explaining trees of the host: what lies in its memory, and what its copies and its work take of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..core.assignment import TrainingGraph
from ..core.plan import Precision
from ..core.report import PHASES, CostItem
from ..core.tensor import DTYPE_BYTES
from .host import HOST, Transfer, elements
from .items import OPTIMIZER, PARAMETERS
from .memory import state_bytes
from .step_time import StepSeconds

OUTSIDE = "outside the layers"


def host_tree(training: TrainingGraph, precision: Precision) -> CostItem | None:
    """Return the bytes that a device's plan keeps in the host's memory; None if it keeps nothing there."""
    kinds: dict[str, list[CostItem]] = {}
    for item, leaf in _lying(training, precision):
        kinds.setdefault(item, []).append(leaf)
    return _tree(kinds)


def host_together(trees: Iterable[CostItem | None]) -> CostItem | None:
    """Return the tree of what several stages of a pipeline keep in the host's memory for one device."""
    kinds: dict[str, list[CostItem]] = {}
    for item in (item for tree in trees if tree is not None for item in tree.children):
        kinds.setdefault(item.name, []).extend(item.children)
    return _tree(kinds)


def _tree(kinds: Mapping[str, Sequence[CostItem]]) -> CostItem | None:
    children = tuple(
        CostItem(name=item, value=sum(leaf.value for leaf in leaves), unit="B", formula="sum", children=tuple(leaves))
        for item, leaves in kinds.items()
    )
    total = sum(child.value for child in children)
    formula = "for one device, in the memory of the machine that it is in"
    return CostItem(name="host memory", value=total, unit="B", formula=formula, children=children) if children else None


def _lying(training: TrainingGraph, precision: Precision) -> Iterator[tuple[str, CostItem]]:
    for scope in training.scopes:
        title, count = scope.assembly.title, scope.assembly.count
        for placed in scope.assembly.parameters:
            size = DTYPE_BYTES[precision.compute]
            parts = [(PARAMETERS, size, False)] if placed.place == HOST else []
            if placed.optimizer_place == HOST and placed.parameter.trainable:
                parts.append((OPTIMIZER, state_bytes(placed, precision), True))
            for item, each, optimizer in parts:
                number = elements(training, placed, optimizer=optimizer)
                layout = placed.optimizer if optimizer else placed.storage
                yield item, CostItem(
                    name=placed.parameter.name, value=float(number * each * count), unit="B",
                    formula=f"{count} layers × " * (count > 1) + f"{number:,} of {each} B, {layout}"
                    + f" ({title or OUTSIDE})",
                )  # fmt: skip


def host_seconds_tree(parts: StepSeconds, listed: tuple[Transfer, ...]) -> CostItem:
    """Return the tree of the seconds of the host that nothing hides."""
    phases = []
    for phase in PHASES:
        inside = tuple(_leaf(transfer) for transfer in listed if transfer.phase == phase)
        total = sum(leaf.value for leaf in inside)
        if inside:
            phases.append(CostItem(name=phase, value=total, unit="s", formula="sum", children=inside))
    hidden = [
        CostItem(name=f"hidden, {phase}", value=-seconds, unit="s", formula="−min(fetches, compute) of the phase")
        for phase, seconds in (("forward", parts.hidden_host_forward), ("backward", parts.hidden_host_backward))
    ]
    children = (*phases, *hidden)
    return CostItem(
        name="exposed, host", value=sum(child.value for child in children), unit="s",
        formula="fetches that do not hide behind computation, and the update on the host", children=children,
    )  # fmt: skip


def _leaf(transfer: Transfer) -> CostItem:
    return CostItem(
        name=f"{transfer.parameter}: {transfer.what}", value=transfer.total, unit="s",
        formula=f"{transfer.count} × {transfer.seconds:.3g} s",
        children=(CostItem(name="bytes", value=transfer.nbytes, unit="B"),),
    )  # fmt: skip
