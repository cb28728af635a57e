"""Writes `stages.py` and `schedule.csv` of a bundle with a pipeline: what each stage takes and gives, and the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...collectives import COLLECTIVES
from ...core.assignment import TrainingGraph
from ...core.evaluated import EvaluatedPlan
from ...core.stage import plain
from .marks import Span
from .parts import Part, Received, parts
from .program import outside

STAGES, SCHEDULE = "stages.py", "schedule.csv"
WIDTH = 120


def write_stages(plan: EvaluatedPlan, classes: tuple[str, ...]) -> dict[str, str]:
    """Return the two files as path → text; none for a model in one piece.

    Parameters
    ----------
    classes
        Names of the classes of the stages.
    """
    if plan.decisions.pipeline is None:
        return {}
    lines, _ = _written(plan, classes)
    return {STAGES: "\n".join(lines) + "\n", SCHEDULE: plan.schedule_text}


def torch_schedule(plan: EvaluatedPlan) -> str:
    """Return the class of `torch.distributed.pipelining` that can run the stages; empty if there is none.

    There, a stage sends to the next one alone.
    """
    if not plan.torch_schedule:
        return ""
    each = parts(plan.training)
    source = _sources(each)
    hops = {(part.number or 0) - source[received.node] for part in each for received in part.received}
    return plan.torch_schedule if hops <= {1} else ""


def stage_spans(plan: EvaluatedPlan, classes: tuple[str, ...]) -> tuple[Span, ...]:
    """Return the lines of `stages.py` that say how a value gets from stage to stage."""
    return () if plan.decisions.pipeline is None else _written(plan, classes)[1]


def _written(plan: EvaluatedPlan, classes: tuple[str, ...]) -> tuple[list[str], tuple[Span, ...]]:
    assert plan.decisions.pipeline is not None
    training, schedule = plan.training, plan.schedule
    assert schedule is not None, "a plan with stages has a schedule"
    each = parts(training)
    made = [(part.number, received) for part in each for received in part.received]
    source = _sources(each)
    head = [
        f'"""The stages of {training.assignment.graph.name} and their order, {schedule.name}: one row of {SCHEDULE} '
        'for each rank."""',
        "",
        "from pathlib import Path",
        "",
        *_imports(classes),
        "from parallel.stages import Chain, Pipeline, Stage, Wire",
        "",
        "PIPELINE = Pipeline(",
        f'    axis="{plan.decisions.pipeline.axis}",',
        "    stages=(",
        *(line for part, name in zip(each, classes, strict=True) for line in _stage(part, name)),
        "    ),",
        "    wires=(",
    ]
    wires: list[str] = []
    spans: list[Span] = []
    for target, received in made:
        wire = _wire(source[received.node], target or 0, received, training)
        first = len(head) + len(wires)
        # The view draws what passes between stages on the edge of the value that is sent.
        edge = f"{training.scopes[0].assembly.title}:{received.source}"
        spans.append(Span(first=first, last=first + len(wire) - 1, edges=(edge,)))
        wires += wire
    tail = [
        "    ),",
        f'    rows=tuple(Path(__file__).with_name("{SCHEDULE}").read_text("utf-8").splitlines()),',
        f"    placement={schedule.placement!r},",
        "    chains=(",
        *(line for chain in schedule.chains for line in _long("Chain", _chain(chain.stages, chain.microbatches))),
        "    ),",
        *_shared(each),
        f"    groups={_tuple(_groups(training))},",
        ")",
    ]
    return [*head, *wires, *tail], tuple(spans)


def _chain(stages: tuple[int, ...], microbatches: tuple[int, ...]) -> Mapping[str, str]:
    """Return the fields of a chain as text."""
    return {"stages": _numbers(stages), "microbatches": _numbers(microbatches)}


def _numbers(numbers: tuple[int, ...]) -> str:
    """Return numbers as a tuple, short where they count up."""
    if len(numbers) > 4 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"tuple(range({numbers[0]}, {numbers[-1] + 1}))"
    return repr(numbers)


def _imports(classes: tuple[str, ...]) -> list[str]:
    names = sorted(set(classes))
    line = f"from model import {', '.join(names)}"
    return [line] if len(line) <= WIDTH else ["from model import (", *(f"    {name}," for name in names), ")"]


def _sources(each: tuple[Part, ...]) -> dict[str, int]:
    """Return operator that receives → the stage that sends to it."""
    return {reader: part.number or 0 for part in each for reader in outside(part.training)}


def _stage(part: Part, name: str) -> list[str]:
    wires = {received.value: received.node for received in part.received}
    taken = _tuple([wires.get(value, value) for value, _, _ in part.training.scopes[0].assembly.inputs])
    gives = _tuple([_value_of(reader, part) for reader in outside(part.training)])
    return _long("Stage", {"build": name, "takes": taken, "gives": gives})


def _value_of(reader: str, part: Part) -> str:
    """Return what a wire to a reader is called, or the loss."""
    return reader if reader in _wires_of(part) else part.training.assignment.graph.root.outputs[0]


def _wires_of(part: Part) -> set[str]:
    return {reader for reader in outside(part.training) if plain(reader) != reader}


def _wire(source: int, target: int, received: Received, training: TrainingGraph) -> list[str]:
    assignment = training.assignment
    wanted = {f.value for f in training.scopes[0].fanouts if f.gradient is not None}
    fields = {
        "value": f'"{received.node}"',
        "source": str(source),
        "target": str(target),
        "shape": repr(received.meta.concrete(assignment.symbols)),
        "layout": f'"{received.layout}"',
    }
    if received.meta.dtype != "compute":
        fields["dtype"] = f'"{received.meta.dtype}"'
    if received.node not in wanted:
        fields["gradient"] = "False"
    return _long("Wire", fields)


def _shared(each: tuple[Part, ...]) -> Iterator[str]:
    """Yield the table of parameters that several stages hold."""
    owners: dict[str, list[int]] = {}
    for part in each:
        for scope in part.training.scopes[:1]:
            for placed in scope.assembly.parameters:
                owners.setdefault(placed.parameter.name, []).append(part.number or 0)
    several = {name: tuple(stages) for name, stages in owners.items() if len(stages) > 1}
    if several:
        yield "    shared={"
        yield from (f'        "{name}": {stages!r},' for name, stages in several.items())
        yield "    },"


def _groups(training: TrainingGraph) -> list[str]:
    """Return the sets of axes over which ranks of a stage communicate, each as text."""
    mesh = training.assignment.mesh
    found: set[tuple[str, ...]] = set()
    for scope in training.scopes:
        moves = [d.redistribution for f in scope.fanouts for d in (*f.forward, *f.backward, *f.again)]
        moves += [moved for update in scope.updates for moved in (update.master, update.gradient, update.values)]
        for moved in moves:
            found |= {
                tuple(axis for axis in mesh.names if axis in step.axes)
                for step in moved.steps
                if not COLLECTIVES[step.kind].local
            }
    return [repr(axes).replace("'", '"') for axes in sorted(found)]


def _tuple(entries: list[str]) -> str:
    quoted = [entry if entry.startswith("(") else f'"{entry}"' for entry in entries]
    return f"({', '.join(quoted)}{',' * (len(quoted) == 1)})"


def _long(call: str, fields: Mapping[str, str]) -> list[str]:
    """Return a call in one line, or in one line a field if it is long."""
    words = [f"{name}={value}" for name, value in fields.items()]
    line = f"        {call}({', '.join(words)}),"
    if len(line) <= WIDTH:
        return [line]
    return [f"        {call}(", *(f"            {word}," for word in words), "        ),"]
