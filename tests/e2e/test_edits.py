"""Must show 3: an edit by mouse or keyboard moves badges, memory and step time, and Ctrl+Z restores everything."""

from __future__ import annotations

import json

from playwright.sync_api import Page, Route, expect

from .conftest import NewContext
from .designer import Designer, Rest, changes_plan, decided
from .latency import edit_latencies, percentile


def test_moving_tp_to_the_reduction_factor_makes_it_row_parallel_and_undo_restores_everything(
    designer: Designer,
) -> None:
    designer.click_in_graph("q_proj")
    before, drawn, numbers = designer.state(), designer.drawing(), designer.numbers()
    assert designer.node("q_proj")["results"][0]["partial"] == []
    expect(designer.chip("n", "tp")).to_have_attribute("aria-pressed", "true")

    designer.toggle("k", "tp")

    expect(designer.chip("k", "tp")).to_have_attribute("aria-pressed", "true")
    expect(designer.chip("n", "tp")).to_have_attribute("aria-pressed", "false")
    after = designer.state()
    assert designer.node("q_proj")["results"][0]["partial"] == ["tp"]
    moved = designer.numbers()
    assert all(new != old for new, old in zip(moved, numbers, strict=True)), (numbers, moved)
    assert designer.drawing() != drawn
    expect(designer.page.get_by_role("region", name="Inspector")).to_contain_text("Σtp")
    traffic = designer.page.get_by_role("region", name="Readers and collectives")
    expect(traffic).to_contain_text("tp")
    assert badges(after) != badges(before)

    designer.undo()

    assert decided(designer.state()) == decided(before)
    assert designer.numbers() == numbers
    assert designer.drawing() == drawn
    expect(designer.chip("n", "tp")).to_have_attribute("aria-pressed", "true")

    with designer.edit():
        designer.page.keyboard.press("Control+Shift+z")
    assert decided(designer.state()) == decided(after)


BUDGET_MS = 400


def badges(state: dict) -> list[tuple]:  # type: ignore[type-arg]
    return [
        (edge["id"], badge["kind"], tuple(badge["axes"]), badge["payload_bytes"])
        for edge in state["view"]["edges"]
        for badge in edge["badges"]
    ]


def tab_to(page: Page, selector: str, limit: int = 40) -> int:
    """Press Tab until the focus is inside what a selector names; return how often it took."""
    for count in range(1, limit + 1):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement?.closest(selector) !== null", selector):
            return count
    raise AssertionError(f"{limit} times Tab do not reach {selector}")


def walk_to(designer: Designer, row: str) -> None:
    """Go down the outline by arrow keys, opening each group on the way, to the row of a test id."""
    focused = designer.page.locator('[role="treeitem"]:focus')
    for _ in range(60):
        if (here := focused.get_attribute("data-testid")) == row:
            return
        closed = focused.get_attribute("aria-expanded") == "false"
        designer.page.keyboard.press("ArrowRight" if closed else "ArrowDown")
        if closed:
            expect(focused).to_have_attribute("aria-expanded", "true")
        else:
            expect(focused).not_to_have_attribute("data-testid", here or "")
    raise AssertionError(f"no way down to {row}")


def test_the_same_by_keyboard_only(designer: Designer) -> None:
    before = designer.state()
    to_tree = tab_to(designer.page, '[role="treeitem"]')
    walk_to(designer, f"op:{designer.node('q_proj')['id']}")
    expect(designer.inspected).to_have_text("q_proj")

    to_factor = tab_to(designer.page, '[data-testid="factor:k"]')
    assert (to_tree, to_factor) <= (12, 20)
    with designer.edit():
        designer.page.keyboard.press("2")
    expect(designer.chip("k", "tp")).to_have_attribute("aria-pressed", "true")
    assert designer.node("q_proj")["results"][0]["partial"] == ["tp"]

    designer.undo()
    assert decided(designer.state()) == decided(before)


def test_the_filter_finds_an_operator_by_keyboard(designer: Designer) -> None:
    keys = designer.page.keyboard
    keys.press("/")
    expect(designer.page.get_by_role("searchbox", name="Filter operators")).to_be_focused()
    keys.type("q_proj")
    rows = designer.page.get_by_role("treeitem")
    expect(rows.last).to_contain_text("q_proj")
    keys.press("ArrowDown")
    expect(designer.page.locator('[role="treeitem"]:focus')).to_have_count(1)
    walk_to(designer, f"op:{designer.node('q_proj')['id']}")
    expect(designer.inspected).to_have_text("q_proj")


def test_an_edit_of_one_layer_cuts_the_run_and_undo_joins_it_again(designer: Designer) -> None:
    before = designer.state()
    designer.pick("q_proj")
    designer.page.get_by_text("One layer", exact=True).click()
    designer.page.get_by_role("textbox", name="Layer").fill("5")
    designer.toggle("k", "tp")
    runs = [group["layers"] for group in designer.state()["view"]["groups"] if group["total"]]
    assert runs == [5, 1, 26]
    # The selection follows the layer that was edited.
    expect(designer.page.locator('[role="treeitem"][aria-selected="true"]')).to_contain_text("q_proj")
    expect(designer.chip("k", "tp")).to_have_attribute("aria-pressed", "true")
    designer.undo()
    assert decided(designer.state()) == decided(before)


def test_parameters_are_stored_further_apart_and_undone_step_by_step(designer: Designer) -> None:
    page, states = designer.page, [designer.state()]
    designer.pick("q_proj")
    with designer.edit():
        page.get_by_test_id("store:weight:dp").click()
    states.append(designer.state())
    assert states[1]["summary"]["memory_bytes"] < states[0]["summary"]["memory_bytes"]
    with designer.edit():
        page.get_by_role("switch", name="Drop after forward").click()
    states.append(designer.state())
    with designer.edit():
        page.get_by_test_id("release:n").click()
    for state in reversed(states):
        designer.undo()
        assert decided(designer.state()) == decided(state)


def test_a_burst_of_edits_is_not_lost(designer: Designer) -> None:
    """Clicks that come faster than answers are queued, drawn at once, and end as asked for."""
    page, held = designer.page, []

    def hold(route: Route) -> None:
        if route.request.method == "PATCH" and not held:
            held.append(route)
        else:
            route.continue_()

    designer.pick("q_proj")
    page.route(f"**/plans/{designer.plan_id}", hold)
    for factor in ("k", "n", "k"):
        designer.chip(factor, "tp").click()
        expect(designer.chip(factor, "tp")).to_have_attribute("aria-pressed", "true")
    # The first edit is answered only now; those that waited go together.
    (first,) = held
    with page.expect_response(lambda answer: changes_plan(answer) and answer.request != first.request) as rest:
        first.continue_()
    state = json.loads(rest.value.body())
    designer.shows(state)
    assert decided(designer.state()) == decided(state)
    axes = {factor["name"]: factor["axes"] for factor in designer.node("q_proj")["factors"]}
    assert axes["k"] == ["tp"]
    assert axes["n"] == []


def test_an_edit_is_on_screen_within_the_budget(designer: Designer) -> None:
    """Must show 3, with the budget of CI; `make bench` has the target of 150 ms for 95 of 100 edits.

    Here half of them: a machine that does other work keeps some waiting, and what makes edits slow makes all slow.
    """
    found = edit_latencies(designer, 20)
    assert percentile(found, 50) <= BUDGET_MS, found


def test_an_edit_leaves_the_outline_where_it_was_scrolled_to(new_context: NewContext, rest: Rest) -> None:
    page = new_context(viewport={"width": 1200, "height": 500}).new_page()
    designer = Designer(page, rest, rest.new_plan()["id"]).open()
    designer.pick("q_proj")
    page.keyboard.press("Control+k")
    page.get_by_role("textbox", name="Find an operator or a command").fill("lm_head")
    page.keyboard.press("Enter")
    expect(designer.inspected).to_have_text("lm_head")
    scroller = page.get_by_role("tree", name="Operators").locator("..")
    assert scroller.evaluate("(element) => element.scrollTop") > 0
    scroller.evaluate("(element) => element.scrollTo(0, 0)")
    designer.toggle("k", "tp")
    designer.settle()
    assert scroller.evaluate("(element) => element.scrollTop") == 0
