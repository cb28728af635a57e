"""Must show 5: a graph of 10,000 operators, every layer by itself, expands and pans within the budgets of CI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import Faults
from .designer import Designer, Rest, State

OPERATORS = 10_000
EXPAND_MS, FRAME_MS = 600, 16
# What the machine's other work may add, and how often to look for a moment without.
LOAD, TRIES = 2, 3

EXPAND = """async () => {
  const { view } = window.__graph;
  view.setOpen([]);
  await window.__graph.settled();
  const start = performance.now();
  view.setOpen(view.model.groups.map((group) => group.id));
  await window.__graph.settled();
  return performance.now() - start;
}"""
# The 95th of 100 paints while the window moves over the graph and back.
PAN = """async (id) => {
  const { view } = window.__graph;
  view.center(id);
  await window.__graph.settled();
  const paints = [];
  for (let step = 0; step < 100; step += 1) {
    view.viewport.pan(step < 50 ? 3 : -3, step < 50 ? -25 : 25);
    await new Promise(requestAnimationFrame);
    paints.push(view.timing.paint);
  }
  return paints.sort((a, b) => a - b)[94];
}"""


def unrolled(state: State, operators: int) -> State:
    """Return the state with each layer drawn by itself, as often as it takes; slots are left out, to keep it small."""
    view = state["view"]
    scope = next(node["scope"] for node in view["nodes"] if node["scope"])
    layer = {
        kind: json.dumps([item for item in view[kind] if item["id"].startswith(scope)])
        for kind in ("groups", "nodes", "edges")
    }
    around = {kind: [item for item in view[kind] if not item["id"].startswith(scope)] for kind in layer}
    count = operators // len(json.loads(layer["nodes"]))
    for number in range(count):
        for kind, text in layer.items():
            here = text.replace(scope, f"model.layers.{number}").replace("layers.*", f"layers.{number}")
            for item in json.loads(here):
                around[kind].append(item | alone(item, number))
    return state | {"view": view | around}


def alone(item: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what differs in a layer that stands for itself only."""
    if item.get("kind") == "carry":
        before = f"model.layers.{number - 1}"
        return {
            "kind": "activation",
            "producer": f"{before}:{before}/residual_mlp" if number else ":model.embed_tokens",
        }
    if "operands" in item:
        return {"layers": 1, "operands": [], "factors": []}
    return {"layers": 1, "start": 0, "total": 0, "label": str(number)} if item.get("total") else {}


@pytest.fixture
def large(page: Page, rest: Rest) -> Designer:
    """A plan whose graph the server seems to have unrolled."""
    state = rest.new_plan()
    body = json.dumps(unrolled(state, OPERATORS))

    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=body)

    page.route(f"**/api/v1/plans/{state['id']}", answer)
    designer = Designer(page, rest, state["id"]).open()
    boxes = page.evaluate("() => window.__graph.view.model.boxes.length")
    assert boxes >= OPERATORS - 30
    return designer


def test_ten_thousand_operators_expand_and_pan_within_the_budget(large: Designer, faults: Faults) -> None:
    # What may be clicked at a made-up operator, the server does not know.
    faults.allow("status of 404")
    page = large.page
    expand, pan = [], []
    for _ in range(TRIES):
        expand.append(page.evaluate(EXPAND))
        pan.append(page.evaluate(PAN, "model.layers.250:model.layers.250.self_attn.q_proj"))
        if min(expand) <= EXPAND_MS and min(pan) <= FRAME_MS:
            break
    assert min(expand) <= EXPAND_MS * LOAD, expand
    assert min(pan) <= FRAME_MS * LOAD, pan

    # The outline has a row for each of them and only mounts those in view.
    find = page.get_by_role("searchbox", name="Filter operators")
    find.fill("layers.250.self_attn.q_proj")
    page.get_by_role("treeitem").filter(has_text="q_proj").click()
    expect(large.inspected).to_have_text("q_proj")
    find.fill("")
    assert page.get_by_role("treeitem").count() < 100
    assert page.evaluate("(id) => window.__graph.screenOf(id)", "model.layers.250:model.layers.250.self_attn.q_proj")
