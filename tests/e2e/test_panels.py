"""The panel below, the palette and the help: what they show, and what when there is nothing or the server fails."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import Faults
from .designer import Designer, Rest

FAULT = {
    "type": "about:blank", "title": "Internal Server Error", "status": 500, "detail": "The disk is full.",
    "code": "http.fault", "hint": "Make room.", "subject": "",
}  # fmt: skip


def test_find_goes_to_an_operator_and_runs_a_command(designer: Designer) -> None:
    page = designer.page
    page.keyboard.press("Control+k")
    find = page.get_by_role("textbox", name="Find an operator or a command")
    find.fill("gate_proj")
    page.keyboard.press("Enter")
    expect(designer.inspected).to_have_text("gate_proj")
    designer.settle()
    box = page.evaluate("(id) => window.__graph.screenOf(id)", designer.node("gate_proj")["id"])
    around = page.get_by_test_id("graph").bounding_box()
    assert around
    assert around["x"] <= box["x"] + box["width"] / 2 <= around["x"] + around["width"]

    page.get_by_role("button", name="Find").click()
    find.fill("sequence parallel over tp")
    with designer.edit():
        page.keyboard.press("Enter")
    page.keyboard.press("Control+k")
    find.fill("no such thing")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.keyboard.press("Escape")
    expect(find).to_have_count(0)


def test_help_lists_the_keys(designer: Designer) -> None:
    designer.page.keyboard.press("?")
    keys = designer.page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Toggle axis n of the mesh on the focused factor")
    designer.page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_communication_tab_draws_the_chart_and_leads_back_to_the_graph(designer: Designer) -> None:
    panel = designer.tab("communication")
    bars = panel.locator(".bars .point")
    expect(bars.first).to_be_visible()
    figure = designer.rest.ask("GET", f"/plans/{designer.plan_id}/figures/communication")
    expect(bars).to_have_count(sum(len(trace["x"]) for trace in figure["data"]))
    panel.locator("tbody tr").first.get_by_role("button").click()
    expect(designer.inspected).to_be_visible()


def test_costs_open_down_to_formulas(designer: Designer) -> None:
    panel = designer.tab("costs")
    expect(panel.get_by_role("region", name="Step time")).to_contain_text("between")
    rows = panel.locator("li, [role=treeitem], [role=row]")
    before = rows.count()
    panel.locator('[aria-expanded="false"]').first.click()
    # One more than there were, at least.
    expect(rows.nth(before)).to_be_attached()


def test_nothing_decided_means_no_communication(page: Page, rest: Rest) -> None:
    designer = Designer(page, rest, rest.new_plan(**{"presets": [], "mesh": [{"name": "tp", "size": 8}]})["id"]).open()
    expect(page.get_by_role("region", name="Inspector")).to_contain_text("Nothing is decided")
    expect(designer.tab("communication")).to_contain_text("No communication")
    # 8 B parameters with optimizer state do not fit one device: said as a number and as a finding.
    expect(page.get_by_text("over its 80.0 GB", exact=True)).to_be_visible()
    expect(designer.tab("diagnostics").get_by_role("listitem").first).to_contain_text("346.1 GB of its 80.0 GB")


def test_unequal_parts_are_a_finding_and_stand_in_the_cells(page: Page, rest: Rest) -> None:
    designer = Designer(page, rest, rest.new_plan(global_batch=7)["id"]).open()
    found = designer.tab("diagnostics").get_by_role("listitem")
    told = found.filter(has_text="size 7 over dp is cut into 2 unequal parts")
    expect(told).to_have_count(1)
    expect(told).to_contain_text("The largest is 4, 1.14 times the mean of 3.50")
    designer.pick("q_proj")
    inspector = page.get_by_role("region", name="Inspector")
    expect(inspector.get_by_text("3–4", exact=True).first).to_be_visible()


@pytest.mark.parametrize(
    ("tab", "address"), [("communication", "report"), ("costs", "report"), ("code", "code?form=*"), ("prove", "proofs")]
)
def test_a_failing_server_is_told_in_the_tab_and_can_be_asked_again(
    designer: Designer, faults: Faults, tab: str, address: str
) -> None:
    faults.allow("status of 500")
    page, pattern = designer.page, f"**/plans/*/{address}"

    def fail(route: Route) -> None:
        route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(FAULT))

    page.route(pattern, fail)
    panel = designer.tab(tab)
    if tab == "prove":
        panel.get_by_role("button", name="Prove this plan").click()
    said = panel.get_by_role("alert")
    expect(said).to_contain_text("The disk is full.")
    expect(said).to_contain_text("Make room.")
    page.unroute(pattern)
    said.get_by_role("button", name="Try again").click()
    expect(said).to_have_count(0)


def test_the_mesh_editor_changes_the_mesh_and_says_what_does_not_fit(designer: Designer) -> None:
    page = designer.page
    page.get_by_test_id("mesh").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Size of axis dp").fill("3")
    expect(dialog.get_by_role("button", name="Change the mesh")).to_be_disabled()
    expect(dialog.get_by_role("status")).to_contain_text("12")
    dialog.get_by_role("textbox", name="Size of axis dp").fill("1")
    dialog.get_by_role("textbox", name="Size of axis tp").fill("8")
    with designer.edit():
        dialog.get_by_role("button", name="Change the mesh").click()
    page.keyboard.press("Escape")
    assert designer.state()["view"]["mesh"] == [["dp", 1], ["tp", 8]]
    expect(page.get_by_test_id("mesh")).to_contain_text("8")
