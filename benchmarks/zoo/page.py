"""Writes docs/reference/zoo.md: what the planner counts of each model of the zoo, beside what torch counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from planner.core.graph import ModelGraph
from planner.core.units import format_count
from planner.importers import load_zoo
from planner.importers.zoo_table import GROUPS, ZOO

from .own_counts import Counts, own_counts

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "zoo.md"
TRUTH = PAGE.with_suffix(".json")
BATCH, SEQ = 2, 128
Truth = Mapping[str, Mapping[str, float]]

HEAD = """# The zoo

Models that have a name, each opened without torch: from its published `config.json` by a builder of our own, or from
a graph that was traced and came along. `python -m benchmarks.zoo.table` writes this page.

## What they are

The plan to start from is what `shardwright models` and the page propose; it fits the memory of its cluster.

"""
COUNTS = f"""
## What is counted, beside torch

At {BATCH} samples of {SEQ} tokens, or of what the model fixes, in bf16 on one device. *parameters*: of the torch
model, on the meta device. *forward*: FLOPs of all products, as `torch.utils.flop_counter` counts them while the
exported model runs on the meta device, with attention over the whole square of queries and keys; where attention is
causal, the planner's cost counts half of its square, a window less. *backward* and *kept*: FLOPs and bytes that
autograd keeps, without attention, of what is named (one layer of each kind, or the whole model), in the joint graph
of forward and backward. In that graph, attention, RMSNorm and GELU are one operator each, which keep what the fused
kernels keep, and the gradient of a grouped convolution takes as much as its forward (torch's counter takes it as if
there were one group). A deviation stands in brackets; without one, the numbers are equal. *Not compared*: the script
was not run on it.

Where the planner deviates in what is kept: it counts the statistics of LayerNorm in float32, as a GPU keeps them, and
the CPU has them in bf16 (below 0.1 %); some products of Mamba-2 have operands that do not lie in a row, of which
torch makes copies that the planner does not count (3.6 %).

Experts: torch's counter has no formula for grouped products, so forward and backward are compared without experts,
and the planner's count of experts stands beside: the work of all slots, filled or not, since no token is dropped
(`docs/concepts/rules.md`).

"""


def page(truth: Truth) -> str:
    """Return the text of the page."""
    return HEAD + "\n".join(_models()) + "\n" + COUNTS + "\n".join(_counts(truth)) + "\n"


def _models() -> Iterator[str]:
    yield "| group | model | class | parameters | exactly | open sizes | cluster | mesh | presets |"
    yield "|---|---|---|--:|--:|---|---|---|---|"
    for group in GROUPS:
        for entry in ZOO.values():
            if entry.group != group:
                continue
            graph = load_zoo(entry.name)
            count = graph.parameter_count
            mesh = " ".join(f"{axis}:{size}" for axis, size in entry.mesh)
            presets = " ".join(f"{preset}:{axis}" for preset, axis in entry.presets)
            yield (
                f"| {group} | `{entry.name}` | {graph.modules[0].class_name} | {format_count(count)} | {count:,} | "
                f"{', '.join(graph.symbols)} | {entry.cluster} | {mesh} | {presets} |"
            )


def _counts(truth: Truth) -> Iterator[str]:
    yield "| model | parameters | forward | attention, whole / counted | experts | one layer | backward | kept |"
    yield "|---|---|--:|--:|--:|---|--:|--:|"
    for name in ZOO:
        graph, row = load_zoo(name), truth.get(name, {})
        whole = own_counts(graph, BATCH, SEQ)
        title, part = layer(graph, whole)
        forward = whole.products + whole.attention - whole.experts
        experts = f"{whole.experts:.4g}" if whole.experts else ""
        attention = f"{whole.attention:.4g} / {whole.counted:.4g}" if whole.attention else ""
        # What torch's experts keep, token by token, is not what slots keep.
        kept = "" if whole.experts else compared(part.kept, row.get("kept"))
        backward = part.backward - part.experts_backward
        if name in WRITTEN_OUT:
            kept, backward_told = "", ""
        else:
            backward_told = compared(backward, row.get("backward"))
        yield (
            f"| `{name}` | {compared(graph.parameter_count, row.get('parameters'))} | "
            f"{compared(forward, row.get('forward'))} | {attention} | {experts} | {title} | "
            f"{backward_told} | {kept} |"
        )


def layer(graph: ModelGraph, whole: Counts) -> tuple[str, Counts]:
    """Return the name and the counts of what torch counts of a joint graph: a layer of each kind, or the whole."""
    repeats = sorted(graph.root.repeats, key=lambda repeat: -repeat.count)
    if graph.name in WHOLE or not repeats:
        return "the whole", whole
    kinds = [repeat for repeat in repeats if repeat.count >= len(repeats)]
    if graph.name == "deepseek-v3":
        kinds = kinds[:1]
    titles = frozenset(_title(repeat.name, repeat.count * repeat.period) for repeat in kinds)
    return ", ".join(f"`{title}`" for title in sorted(titles)), own_counts(graph, BATCH, SEQ, scopes=titles)


WRITTEN_OUT = frozenset({"gpt-oss-20b", "gpt-oss-120b"})
"""Models whose attention torch has no operator for."""
WHOLE = frozenset({"convnext-l", "resnet-50", "resnet-50-130k"})
"""Models whose layers are of several widths."""


def _title(name: str, layers: int) -> str:
    """Return the title of the scope of a repeat that runs as a whole."""
    return (
        name if name.rpartition(".")[2][:1].isdigit() and "-" in name.rpartition(".")[2] else f"{name}.0-{layers - 1}"
    )


def compared(own: float, other: float | None) -> str:
    """Return a number with its deviation from torch's."""
    shown = f"{own:,.0f}" if own < 1e12 else f"{own:.6g}"
    if other is None:
        return f"{shown} (not compared)"
    return shown if own == other else f"{shown} ({own / other - 1:+.2%})"


if __name__ == "__main__":
    import json

    PAGE.write_text(page(json.loads(TRUTH.read_text("utf-8"))), "utf-8")
