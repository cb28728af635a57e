"""The pipeline of a plan in the page: cut, drag a boundary, switch the schedule, compare, take back."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .conftest import NewContext
from .designer import Designer, Rest
from .units import in_memory, in_seconds

PIPED = {
    "model": "llama-3-8b", "cluster": "4x8-h100-sxm", "microbatches": 16, "global_batch": 64,
    "mesh": [{"name": "pp", "size": 4}, {"name": "dp", "size": 2}, {"name": "tp", "size": 4}],
}  # fmt: skip


def _numbers(page: Page, schedule: str) -> list[str]:
    return page.get_by_test_id(f"pipeline:{schedule}").locator("td").all_inner_texts()


def test_drag_a_boundary_switch_the_schedule_compare_and_undo(new_context: NewContext, rest: Rest) -> None:
    page = new_context().new_page()
    designer = Designer(page, rest, rest.new_plan(**PIPED)["id"]).open()
    designer.tab("pipeline")
    with designer.edit():
        page.get_by_test_id("pipeline:cut").click()
    strip = page.get_by_test_id("stage-strip")
    expect(strip.get_by_role("slider")).to_have_count(3)
    balanced, before = _numbers(page, "1f1b"), designer.numbers()

    # Drag the second stage's beginning to the left: its rank gets more to do than the others.
    cut = strip.get_by_role("slider", name="Begin of stage 1")
    start = int(cut.get_attribute("aria-valuenow") or 0)
    box, whole = cut.bounding_box(), strip.bounding_box()
    assert box
    assert whole
    with designer.edit():
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] - whole["width"] / 8, box["y"] + box["height"] / 2, steps=4)
        page.mouse.up()
    expect(cut).not_to_have_attribute("aria-valuenow", str(start))
    report = rest.ask("GET", f"/plans/{designer.plan_id}/pipeline")["numbers"][0]
    row = page.get_by_test_id("pipeline:1f1b")
    expect(row.locator("td").first).to_have_text(in_seconds(report["step_time_s"]))
    expect(row.locator("td").last).to_have_text(in_memory(max(report["rank_memory_bytes"])))
    dragged, after = _numbers(page, "1f1b"), designer.numbers()
    # Step time, bubble and memory.
    assert dragged[0] != balanced[0]
    assert dragged[2] != balanced[2]
    assert dragged[-1] != balanced[-1]
    assert after != before

    # The keyboard moves it, too.
    with designer.edit():
        cut.press("ArrowRight")
    designer.undo()
    expect(cut).not_to_have_attribute("aria-valuenow", str(start))
    designer.undo()
    expect(cut).to_have_attribute("aria-valuenow", str(start))
    expect(row.locator("td").first).to_have_text(balanced[0])
    assert designer.numbers() == before

    page.get_by_test_id("pipeline:schedule").click()
    with designer.edit():
        page.get_by_role("option", name="zb-h1", exact=True).click()
    expect(page.get_by_test_id("pipeline:zb-h1")).to_be_visible()
    assert designer.numbers() != before

    page.get_by_test_id("pipeline:against").click()
    page.get_by_role("option", name="1f1b", exact=True).click()
    expect(page.get_by_test_id("pipeline:1f1b").locator("td").first).to_have_text(balanced[0])
    # Two schedules on one time axis, with the memory of each at hand.
    expect(page.get_by_role("img", name="zb-h1 above 1f1b")).to_be_visible()
    page.get_by_text("Memory with 1f1b").click()
    expect(page.get_by_role("img", name="Bytes that every rank holds")).to_be_visible()

    page.get_by_test_id("stage:2").get_by_role("button").click()
    marked = [stage["nodes"] for stage in rest.ask("GET", f"/plans/{designer.plan_id}/pipeline")["stages"]][2]
    assert marked
    with designer.edit():
        page.get_by_role("button", name="One piece").click()
    expect(page.get_by_test_id("pipeline:cut")).to_be_visible()
