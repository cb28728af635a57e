"""The plans that `make prove-all` proves: presets and their products, and random assignments, of every architecture.

Random plans are drawn by Hypothesis from fixed seeds, so each run proves the same ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from planner.core.graph import ModelGraph
from planner.core.mesh import DeviceMesh
from planner.hardware import cluster_name
from planner.plan import Plan
from tests.tiny import tiny_gpt2, tiny_graph, with_dropout

from .random_plans import Draw, first_legal, random_plan_of
from .traced import NAMES, traced_graph

ARCHITECTURES: Mapping[str, Callable[[], ModelGraph]] = {
    "llama": tiny_graph,
    "llama, biases, tied, dropout": lambda: with_dropout(tiny_graph("llama-biased", tied=True)),
    "qwen2": partial(tiny_graph, "qwen2"),
    "qwen3": partial(tiny_graph, "qwen3"),
    "mistral, windows": partial(tiny_graph, "mistral-window"),
    "mixtral": partial(tiny_graph, "mixtral"),
    "gpt2": tiny_gpt2,
} | {name: partial(traced_graph, name) for name in NAMES}
"""Name → its graph, small."""
_DATA: Mapping[str, tuple[tuple[str, str], ...]] = {
    "dp:2": (("data_parallel", "dp"),),
    "dp:3": (("zero3", "dp"),),
    "dp:4": (("zero1", "dp"),),
    "dp:8": (("zero2", "dp"),),
    "rep:2,dp:4": (("data_parallel", "rep"), ("zero3", "dp")),
}
_TENSOR: Mapping[str, tuple[tuple[str, str], ...]] = {
    "tp:2": (("megatron", "tp"),),
    "tp:4": (("megatron", "tp"), ("sequence_parallel", "tp")),
    "dp:2,tp:4": (("data_parallel", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp")),
    "dp:4,tp:2": (("zero3", "dp"), ("megatron", "tp")),
    "rep:2,dp:2,tp:2": (
        ("data_parallel", "rep"), ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"),
    ),
}  # fmt: skip
_EXPERTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "ep:4": (("data_parallel", "ep"), ("expert_parallel", "ep")),
    "ep:2,tp:2": (
        ("data_parallel", "ep"), ("expert_parallel", "ep"), ("megatron", "tp"), ("sequence_parallel", "tp"),
    ),
}  # fmt: skip
_PIPELINES: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "pp:2,dp:2": ("1f1b", (("data_parallel", "dp"),)),
    "pp:2,tp:4": ("zb-h1", (("megatron", "tp"), ("sequence_parallel", "tp"))),
    "pp:2,dp:2,tp:2": ("gpipe", (("zero1", "dp"), ("megatron", "tp"))),
}
TENSOR_PARALLEL = frozenset({
    "llama", "llama, biases, tied, dropout", "qwen2", "qwen3", "mistral, windows", "mixtral", "gpt2", "bert", "t5",
    "vit", "whisper", "gpt_neox", "gemma2", "deepseek_v3", "gpt_oss",
})  # fmt: skip
"""Architectures whose modules the preset `megatron` knows."""
EXPERTS = frozenset({"mixtral"})
IN_STAGES = frozenset({"llama", "qwen2", "gpt2"})
DRAWN = 4
"""Random plans of each architecture."""
_WORLDS = (4, 8, 4, 8, 6, 3, 2)
_SHARES = (0.02, 0.1, 0.4, 0.9)


def presets(name: str) -> Iterator[tuple[str, Plan]]:
    """Yield what is said of each plan of presets, and the plan."""
    tables = [_DATA, _TENSOR if name in TENSOR_PARALLEL else {}, _EXPERTS if name in EXPERTS else {}]
    graph = ARCHITECTURES[name]()
    for number, (mesh, wanted) in enumerate(item for table in tables for item in table.items()):
        parsed = DeviceMesh.parse(mesh)
        plan = Plan.new(
            graph, cluster=cluster_name(parsed.device_count), mesh=parsed, global_batch=8,
            seq=8 if "S" in graph.symbols else 0, microbatches=1 + number % 2, precision="float64",
        )  # fmt: skip
        for preset, axis in wanted:
            plan = plan.preset(preset, axis=axis)
        yield _title(wanted), plan
    for mesh, (schedule, wanted) in _PIPELINES.items() if name in IN_STAGES else ():
        parsed = DeviceMesh.parse(mesh)
        plan = Plan.new(
            graph, cluster=cluster_name(parsed.device_count), mesh=parsed, global_batch=8, seq=8, microbatches=4,
            precision="float64",
        )  # fmt: skip
        for preset, axis in wanted:
            plan = plan.preset(preset, axis=axis)
        yield f"{_title(wanted)}, stages over pp by {schedule}", plan.pipelined("pp", schedule)


def _title(wanted: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{preset} over {axis}" for preset, axis in wanted)


def drawn(name: str, count: int = DRAWN) -> list[Draw]:
    """Return random legal plans of an architecture, the same each time."""
    graph = ARCHITECTURES[name]()
    found: list[Draw] = []

    @seed(zlib.crc32(name.encode()))
    @settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None, derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(legal_plans(graph))
    def collect(made: Draw) -> None:
        found.append(made)

    collect()
    return found[:count]


@st.composite
def legal_plans(draw: st.DrawFn, graph: ModelGraph) -> Draw:
    """Draw a legal plan of a graph on two to eight ranks, with its bundle."""
    world = draw(st.sampled_from(_WORLDS))
    random = Random(draw(st.integers(0, 2**32 - 1)))

    def propose() -> Plan:
        while True:
            plan = random_plan_of(graph, random, world, _SHARES)
            if decisions(plan):
                return plan

    return first_legal(propose)


def decisions(plan: Plan) -> int:
    """Return how many decisions on operators and parameters a plan has."""
    made = plan.decisions
    return len(made.factors) + len(made.kept) + len(made.parameters)
