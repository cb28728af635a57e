"""Which lines stand for what: held to the text itself, and to the collectives that the view draws on its edges."""

from __future__ import annotations

import ast
from collections import Counter
from textwrap import dedent

import pytest

from planner.collectives import COLLECTIVES
from planner.compose import bundle, code_marks, train, view
from planner.core.assignment import TrainingGraph
from planner.core.code import CodeMark
from planner.core.stage import RECEIVE, SEND_RECV
from planner.core.view import PlanView
from planner.exporters.explicit.marks import Span, update_spans
from planner.plan import Plan
from tests.proof.random_plans import draw
from tests.tiny import tiny_graph, tiny_plan

pytest.importorskip("torch")

from tests.proof.irregular import irregular_graph

IRREGULAR = ("two classes", "alternating", "skips", "again", "out of turn", "parameters")
"""Models with layers that take turns, modules that run twice and parameters beside modules."""
PRESETS = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
MESH = "dp:2,tp:2"


def pipelined() -> Plan:
    graph = tiny_graph("qwen2", tied=True)
    plan = tiny_plan("pp:2,dp:2,tp:2", ("zero1", "dp"), ("megatron", "tp"), graph=graph, microbatches=2)
    return plan.pipelined("pp", schedule="1f1b")


def plans() -> dict[str, Plan]:
    whole = tiny_plan(MESH, *PRESETS)
    return {
        "unsharded": tiny_plan("dp:1"),
        "zero3": whole,
        "zero1": tiny_plan(MESH, ("zero1", "dp"), ("megatron", "tp"), graph=tiny_graph("llama-biased")),
        "zero2, once a step": tiny_plan(MESH, ("zero2", "dp"), ("megatron", "tp"), microbatches=2),
        "tied": tiny_plan(MESH, *PRESETS, graph=tiny_graph("qwen2", tied=True)),
        "recomputed": whole.recompute("layers.*"),
        "stages": pipelined(),
        "runs": whole.shard("layers.1.mlp.gate_proj|up_proj", {"n": ()}),
        **{name: tiny_plan("dp:2", ("zero3", "dp"), graph=irregular_graph(name)) for name in IRREGULAR},
        **{f"random {world}-{seed}": draw(seed, world).plan for world, seed in ((4, 3), (8, 5), (8, 8), (8, 11))},
    }


@pytest.fixture(scope="module", params=plans().items(), ids=lambda item: item[0])
def found(request: pytest.FixtureRequest) -> tuple[PlanView, list[str], tuple[CodeMark, ...]]:
    return marked(request.param[1])


def marked(plan: Plan, path: str = "model.py") -> tuple[PlanView, list[str], tuple[CodeMark, ...]]:
    """Return the view, the lines of a file and its marks."""
    training: TrainingGraph = train(plan)
    drawn, _ = view(plan, training)
    marks = tuple(mark for mark in code_marks(plan, training=training) if mark.path == path)
    return drawn, bundle(plan, training=training)[path].split("\n"), marks


def plain(name: str) -> str:
    """Return a name without the stage that it is of."""
    return name.partition("@stage")[0]


def text_of(lines: list[str], mark: CodeMark) -> str:
    return dedent("\n".join(lines[mark.first - 1 : mark.last]))


def is_update(text: str) -> bool:
    return '": Update(' in text


def collectives(text: str) -> Counter[str]:
    """Return the kinds of the steps that a marked text names, those that start a run left out."""
    if is_update(text):
        (statement,) = ast.parse(f"f({{{text.strip().rstrip(',')}}})" if text.lstrip().startswith('"') else text).body
    else:
        (statement,) = ast.parse(text).body
    kinds: Counter[str] = Counter()
    skipped: set[int] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.keyword) and node.arg == "master":
            skipped |= {id(inner) for inner in ast.walk(node.value)}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or id(node) in skipped:
            continue
        given = next((k.value for k in node.keywords if k.arg == "kind"), None)
        if isinstance(given, ast.Constant):
            kinds[str(given.value)] += 1
        elif node.func.id == "ReduceParts":
            kinds["reduce_scatter"] += 1
        else:
            kinds["".join(f"_{c.lower()}" if c.isupper() else c for c in node.func.id).lstrip("_")] += 1
    return Counter({kind: n for kind, n in kinds.items() if kind in COLLECTIVES and not COLLECTIVES[kind].local})


def test_ids_are_those_of_the_view(found: tuple[PlanView, list[str], tuple[CodeMark, ...]]) -> None:
    drawn, _, marks = found
    # What receives from another stage is a line of stages.py.
    nodes = {node.id for node in drawn.nodes if node.op != RECEIVE}
    edges = {edge.id for edge in drawn.edges}
    assert {name for mark in marks for name in mark.nodes} == nodes
    assert {name for mark in marks for name in mark.edges} <= edges
    assert all(bool(mark.nodes) != bool(mark.edges) for mark in marks)


def test_an_operator_is_one_statement(found: tuple[PlanView, list[str], tuple[CodeMark, ...]]) -> None:
    _, lines, marks = found
    for mark in marks:
        if mark.nodes:
            (statement,) = ast.parse(text_of(lines, mark)).body
            assert not isinstance(statement, ast.Return | ast.FunctionDef)
            assert "reshard(" not in text_of(lines, mark)


def test_a_resharding_is_its_comment_and_its_call(found: tuple[PlanView, list[str], tuple[CodeMark, ...]]) -> None:
    _, lines, marks = found
    for mark in marks:
        text = text_of(lines, mark)
        if not mark.edges or is_update(text):
            continue
        first = text.partition("\n")[0]
        assert any(first.startswith(f"# {plain(edge.partition(':')[2])}, ") for edge in mark.edges), (first, mark)
        assert "reshard(" in text or "fan_out(" in text


def test_an_update_names_its_parameters(found: tuple[PlanView, list[str], tuple[CodeMark, ...]]) -> None:
    _, lines, marks = found
    assert sum('": Update(' in line for line in lines) == sum(is_update(text_of(lines, mark)) for mark in marks)
    for mark in marks:
        text = text_of(lines, mark)
        if is_update(text):
            assert {plain(e.rpartition(".")[2]) for e in mark.edges} == set(
                part.rpartition('"')[2] for part in text.split('": Update(')[:-1]
            )


def test_every_collective_of_the_view_is_marked(found: tuple[PlanView, list[str], tuple[CodeMark, ...]]) -> None:
    drawn, lines, marks = found
    named: dict[str, Counter[str]] = {}
    for mark in marks:
        # Of several updates on one line, it is not told here which is whose.
        if text_of(lines, mark).count('": Update(') <= 1:
            for edge in mark.edges:
                named[edge] = named.get(edge, Counter()) + collectives(text_of(lines, mark))
    for edge in drawn.edges:
        kinds = {badge.kind for badge in edge.badges} - {SEND_RECV}
        planned = {kind for kind in kinds if not COLLECTIVES[kind].local}
        assert planned == set(named.get(edge.id, ())), edge.id


def test_a_line_of_a_class_that_modules_share_stands_for_both() -> None:
    _, lines, marks = marked(tiny_plan("dp:2", ("zero3", "dp"), graph=irregular_graph("skips")))
    weight = next(mark for mark in marks if ":body.down_blocks.0.layers.1.norm.weight" in mark.edges)
    assert weight.edges[1:] == (":body.down_blocks.1.layers.1.norm.weight",)
    assert text_of(lines, weight).startswith("# body.down_blocks.0.layers.1.norm.weight, ")
    assert any(len(mark.nodes) == 2 for mark in marks)


def test_what_passes_between_stages_is_a_line_of_their_table() -> None:
    drawn, lines, marks = marked(pipelined(), "stages.py")
    sent = {edge.id for edge in drawn.edges if any(badge.kind == SEND_RECV for badge in edge.badges)}
    assert {edge for mark in marks for edge in mark.edges} == sent
    assert sent
    received = {node.name for node in drawn.nodes if node.op == RECEIVE}
    named = set()
    for mark in marks:
        (statement,) = ast.parse(text_of(lines, mark).rstrip().rstrip(",")).body
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.Call)
        named |= {ast.literal_eval(k.value) for k in statement.value.keywords if k.arg == "value"}
    assert named == received


def test_updates_on_one_line_and_over_several() -> None:
    lines = ['self.x = Weights(mesh, {"a": Update(reduce=[]), "b": Update(apart=True)}, a=1, b=2)']
    assert list(update_spans(lines, ["a", "b"])) == [Span(first=0, last=0, edges=("a", "b"))]
    lines = ["f(", "    {", '        "a": Update(', "            reduce=[],", "        ),", "    },", ")"]
    assert list(update_spans(lines, ["a"])) == [Span(first=2, last=4, edges=("a",))]
