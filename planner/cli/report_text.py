"""The answer of `evaluate` for people: what was asked, time, memory, collectives, findings."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.report import CollectiveRow, CostItem, Report
from ..core.stage import plain
from ..core.units import format_bytes, format_count, format_seconds
from .collectives_text import collectives_text
from .door import heading, sentence
from .facts import facts
from .plans import Request
from .table import bar, columns, folded

_BAR = 24


def report_text(asked: Request, report: Report, width: int | None, *, details: bool) -> str:
    """Return the whole text.

    Parameters
    ----------
    width
        Columns of the terminal; None if names are to stay whole on one line.
    details
        Open every number down to its inputs, and list every collective.
    """
    parts = [
        folded(header(asked), width),
        folded(_step_time(report), width),
        folded(_memory(report), width),
        folded(_pipeline(report), width),
        collectives_text(report.collectives, width, each=details),
        folded((sentence(found) for found in report.diagnostics), width),
    ]
    if details:
        parts += [list(_tree(report.step_time)), list(_tree(report.memory))]
        parts += [] if report.host is None else [list(_tree(report.host))]
    return "\n\n".join("\n".join(part) for part in parts if part)


def header(asked: Request) -> list[str]:
    """Return what is priced: model, mesh and cluster, batch; what nobody chose is marked."""
    plan, decisions = asked.plan, asked.plan.decisions
    model = facts(plan.graph)
    cluster = plan.cluster

    def mark(name: str) -> str:
        return " (default)" if name in asked.assumed else ""

    sample, length = ("sequence", f" of {decisions.seq} tokens{mark('seq')}") if decisions.seq else ("sample", "")
    batch = f"{_many(decisions.global_batch, sample)}{mark('global_batch')}{length}"
    return [
        f"{heading(model.name)}  {model.architecture}, {model.layers} layers, hidden {model.hidden}, "
        f"{format_count(model.parameters)} parameters",
        f"mesh    {decisions.mesh} on {decisions.cluster}{mark('cluster')}: "
        f"{_many(cluster.nodes, 'node')} of {cluster.devices_per_node} {cluster.device.name}",
        f"batch   {batch}, {_many(decisions.microbatches, 'microbatch')}, {decisions.precision}",
        *(f"        {sentence}" for sentence in model.fixed),
    ]


def _step_time(report: Report) -> list[str]:
    total = report.step_time.value
    low, high = report.interval
    # Sums in another order differ in the last digits: less than this is nothing.
    noise = 1e-9 * total
    rows = []
    for child in report.step_time.children:
        value, note = child.value if child.value > noise else 0.0, ""
        if "communication" in child.name:
            chosen = [r for r in report.collectives if _part(r) == child.name]
            note = _kinds(chosen)
            hidden = sum(r.seconds * r.count for r in chosen) - value
            note += f"; {format_seconds(hidden)} hidden" if hidden > noise else ""
        elif "host" in child.name:
            note = f"{format_seconds(-sum(c.value for c in child.children if c.value < 0))} hidden"
        rows.append((_NAMES.get(child.name, child.name), format_seconds(value), f"{value / total:.0%}", note))
    return [
        f"{heading('step time')}  {format_seconds(total)}",
        f"  between {format_seconds(low)} with everything hidden that can be, and {format_seconds(high)} with nothing",
        *(f"  {line}" for line in columns(rows, "<>><")),
        f"  MFU {report.mfu:.1%}, {_throughput(report)}, {_rate(report.flops, 'FLOP')} a step",
    ]


def _throughput(report: Report) -> str:
    if report.tokens_per_second is None:
        return f"{report.samples_per_second:,.1f} samples/s"
    return f"{report.tokens_per_second:,.0f} tokens/s"


_ACTIVATIONS, _PARAMETERS = "communication of activations", "exposed communication of parameters"
_GRADIENTS = "exposed gradient communication"
_NAMES = {_ACTIVATIONS: "exposed, activations", _PARAMETERS: "exposed, parameters", _GRADIENTS: "exposed, gradients"}


def _part(row: CollectiveRow) -> str:
    """Return the part of the step time that a collective belongs to."""
    if row.reduces:
        return _GRADIENTS
    return _PARAMETERS if row.parameter else _ACTIVATIONS


def _kinds(rows: Iterable[CollectiveRow]) -> str:
    seconds: dict[str, float] = {}
    for row in rows:
        seconds[row.kind] = seconds.get(row.kind, 0.0) + row.seconds * row.count
    return ", ".join(f"{kind.replace('_', '-')} {format_seconds(value)}" for kind, value in seconds.items())


def _memory(report: Report) -> list[str]:
    used, capacity = report.memory.value, report.capacity_bytes
    rows = [
        (item.name, _decimal(item.value), f"{item.value / capacity:.0%}", bar(item.value / capacity, _BAR))
        for item in report.memory.children
    ]
    rows.append(("all", _decimal(used), f"{used / capacity:.0%}", bar(used / capacity, _BAR)))
    fits = "fits" if used <= capacity else "DOES NOT FIT"
    host = [] if report.host is None else [f"{item.name} {_decimal(item.value)}" for item in report.host.children]
    return [
        f"{heading('memory')}  {_decimal(used)} of {_decimal(capacity)} on each device: {fits}",
        *(f"  {line.replace('░', ' ').rstrip()}" for line in columns(rows, "<>><")),
        *([f"  and on the host for each device: {', '.join(host)}"] if host else []),
    ]


def _pipeline(report: Report) -> list[str]:
    pipeline = report.pipeline
    if pipeline is None:
        return []
    schedule = pipeline.timeline.schedule
    rows = [("stage", "ranks", "forward", "backward", "states", "keeps", "runs")]
    for stage in pipeline.stages:
        times = stage.times
        runs = [plain(name) for name in stage.items if plain(name) == name]
        shown = ", ".join(runs[:3]) + (f" … {runs[-1]}" if len(runs) > 3 else "")
        rows.append((
            str(stage.index), "+".join(map(str, stage.ranks)), format_seconds(times.forward),
            format_seconds(times.recompute + times.backward_input + times.backward_weight), _decimal(times.resident),
            _decimal(times.activation), shown,
        ))  # fmt: skip
    shares = ", ".join(f"{share:.1%} {name.replace('_', ' ')}" for name, share in pipeline.bubbles)
    most = max(pipeline.rank_memory)
    return [
        f"{heading('pipeline')}  {schedule.name}, {_many(len(pipeline.stages), 'stage')} on "
        f"{_many(schedule.ranks, 'rank')}, {_many(schedule.microbatches, 'microbatch')}",
        *(f"  {line}" for line in columns(rows, "><>>>><")),
        f"  bubble {shares}; no order takes less than {format_seconds(pipeline.bound)}",
        f"  a rank holds {_decimal(min(pipeline.rank_memory))} to {_decimal(most)}",
        *([f"  {pipeline.note}"] if pipeline.note else []),
    ]


def _tree(item: CostItem, depth: int = 0) -> Iterable[str]:
    title = heading(item.name) if depth == 0 else item.name
    yield f"{'  ' * depth}{title}  {_value(item)}" + (f"  = {item.formula}" if item.formula else "")
    for child in item.children:
        yield from _tree(child, depth + 1)


def _value(item: CostItem) -> str:
    match item.unit:
        case "s":
            return format_seconds(item.value)
        case "B":
            return format_bytes(item.value)
        case unit:
            return _rate(item.value, unit)


def _rate(value: float, unit: str) -> str:
    """Return a number with a decimal prefix; billions of what has a unit are giga."""
    number, _, prefix = format_count(value).partition(" ")
    return f"{number} {prefix.replace('B', 'G')}{unit}"


def _decimal(value: float) -> str:
    """Return bytes in decimal units, as the sizes of devices are given."""
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _many(count: int, what: str) -> str:
    plural = "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{'' if count == 1 else plural}"
