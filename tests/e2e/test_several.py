"""Several operators selected and edited together: framed in the graph, or taken along in the outline."""

from __future__ import annotations

from playwright.sync_api import expect

from .designer import Designer, decided


def test_framed_operators_are_edited_as_one_step(designer: Designer) -> None:
    page = designer.page
    before = designer.state()
    designer.pick("q_proj")
    designer.settle()
    boxes = [
        page.evaluate("(id) => window.__graph.screenOf(id)", designer.node(name)["id"]) for name in ("q_proj", "k_proj")
    ]
    left, right = min(b["x"] for b in boxes), max(b["x"] + b["width"] for b in boxes)
    top = min(b["y"] for b in boxes)
    page.keyboard.down("Shift")
    page.mouse.move(left - 6, top - 6)
    page.mouse.down()
    page.mouse.move(left + 40, top + 10)
    page.mouse.move(min(right - 10, 1000), top + 20)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(designer.inspected).to_have_text("2 operators")

    whole = page.get_by_test_id("shared:n:tp")
    expect(whole).to_have_attribute("aria-pressed", "true")
    with designer.edit():
        whole.click()
    expect(page.get_by_test_id("shared:n:tp")).to_have_attribute("aria-pressed", "false")
    after = designer.state()
    assert "in 2 operators" in after["undo"]
    for name in ("q_proj", "k_proj"):
        factors = {factor["name"]: factor["axes"] for factor in designer.node(name)["factors"]}
        assert factors["n"] == []
    designer.undo()
    assert decided(designer.state()) == decided(before)
    page.keyboard.press("Escape")
    expect(designer.inspected).to_have_count(0)


def test_the_outline_takes_operators_along(designer: Designer) -> None:
    page = designer.page
    designer.pick("q_proj")
    page.get_by_test_id(f"op:{designer.node('o_proj')['id']}").click(modifiers=["Control"])
    expect(designer.inspected).to_have_text("2 operators")
    # They agree on the batch, and not on the features that each sums over.
    expect(page.get_by_test_id("shared:batch:dp")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_test_id("shared:k:tp")).to_have_attribute("aria-pressed", "mixed")
    designer.pick("q_proj")
    page.get_by_test_id(f"op:{designer.node('q_proj')['id']}").focus()
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(designer.inspected).to_have_text("3 operators")
    expect(page.locator('[role="treeitem"][aria-selected="true"]')).to_have_count(3)
