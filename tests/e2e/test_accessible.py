"""axe finds nothing serious on any screen, in either theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import ROOT, NewContext
from .designer import Designer, Rest

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
TABS = ("communication", "costs", "code", "prove", "diagnostics")
RUN = "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"


def faults_of(page: Page, screen: str) -> list[str]:
    """Return what axe calls serious or critical, one line an element."""
    found: list[dict[str, Any]] = page.evaluate(RUN)
    return [
        f"{screen}: {fault['id']} ({fault['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(new_context: NewContext, rest: Rest, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    # The server's own content policy would refuse a script that is put into the page.
    page = new_context(color_scheme=theme, bypass_csp=True).new_page()
    state = rest.new_plan()
    page.goto("/")
    page.add_script_tag(path=Path(AXE))
    expect(page.get_by_test_id(f"plan:{state['id']}")).to_be_visible()
    expect(page.get_by_role("form", name="New plan")).to_be_visible()
    found = faults_of(page, "start")

    designer = Designer(page, rest, state["id"]).open()
    page.add_script_tag(path=Path(AXE))
    found += faults_of(page, "nothing selected")
    designer.pick("q_proj")
    expect(designer.chip("k", "tp")).to_be_visible()
    found += faults_of(page, "an operator selected")
    page.get_by_test_id(f"op:{designer.node('o_proj')['id']}").click(modifiers=["Control"])
    expect(page.get_by_test_id("shared:k:tp")).to_be_visible()
    found += faults_of(page, "several operators selected")
    for tab in TABS:
        panel = designer.tab(tab)
        expect(panel.get_by_role("status", name="Loading")).to_have_count(0)
        found += faults_of(page, tab)
    page.get_by_test_id(f"op:{designer.node('q_proj')['id']}").click()
    designer.toggle("k", "tp")
    panel = designer.tab("code")
    page.get_by_role("button", name="Show the edge q_proj in the code").click()
    expect(panel.locator('[data-current="true"]').first).to_be_visible()
    found += faults_of(page, "code of an edge")
    panel.get_by_text("Changes", exact=True).click()
    expect(panel.get_by_test_id("diff:model.py")).to_be_visible()
    found += faults_of(page, "changes of the code")
    page.get_by_test_id("mesh").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += faults_of(page, "mesh editor")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show the plan as a whole").click()
    with designer.edit():
        page.get_by_test_id("fusion").get_by_text("Index").click()
    page.get_by_role("textbox", name="Buckets begin at").fill("no")
    found += faults_of(page, "gradients in buckets")
    page.get_by_role("button", name="Show", exact=True).click()
    dialog = page.get_by_role("dialog", name="Buckets of gradients")
    dialog.get_by_test_id("bucket:0").locator("summary").click()
    expect(dialog.get_by_role("listitem").first).to_be_visible()
    found += faults_of(page, "buckets")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    found += faults_of(page, "keys")
    assert found == []
