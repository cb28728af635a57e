"""The step-through of a redistribution, on its own page and from the plan; slice maps of tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from .conftest import Faults, NewContext
from .designer import Designer, Rest
from .test_accessible import AXE, faults_of

MESH = "dp:2,tp:4"
PARTIAL = {"mesh": MESH, "shape": "16x16", "from": "[dp, -] +tp", "to": "[-, tp]"}


# How far below a point of the page the first badge is.
FIRST_BADGE = """([x, y]) => {
  const { hand } = window.__graph.view;
  const page = window.__graph.view.canvas.getBoundingClientRect();
  for (let below = 0; below < 80; below += 2)
    if (hand.hitAt(x - page.left, y + below - page.top)?.kind === "badge") return below + 2;
  throw new Error("no badge below");
}"""


def asked(rest: Rest, query: dict[str, str]) -> dict[str, Any]:
    body = {"mesh": query["mesh"], "shape": query["shape"], "source": query["from"], "target": query["to"]}
    answer: dict[str, Any] = rest.ask("POST", "/redistribute", body)
    return answer


def part(box: list[list[int]]) -> str:
    return f"[{', '.join(f'{start}:{stop}' for start, stop in box)}]"


def says(page: Page, begin: str, end: str = "") -> None:
    """Check what is said of the state that is shown."""
    expect(page.get_by_test_id("state")).to_have_text(re.compile(f"^{re.escape(begin)}.*{re.escape(end)}$"))


def test_it_opens_by_keyboard_on_the_mesh_of_the_plan(designer: Designer) -> None:
    page = designer.page
    page.keyboard.press("Control+k")
    expect(page.get_by_role("textbox", name="Find an operator or a command")).to_be_focused()
    page.keyboard.type("from one layout")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="From one layout to another")
    expect(dialog.get_by_test_id("field:mesh")).to_have_value(MESH)
    expect(dialog.get_by_test_id("field:cluster")).to_have_value("1x8-h100-sxm")
    expect(dialog.get_by_test_id("ranks")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("r")
    expect(dialog.get_by_test_id("state")).to_contain_text("At the start: [dp, tp]")
    dialog.get_by_role("link", name="Open as a page").click()
    expect(page.get_by_role("heading", name="From one layout to another")).to_be_visible()
    expect(page.get_by_test_id("field:cluster")).to_have_value("1x8-h100-sxm")
    page.go_back()
    Designer.on(page, designer.rest)


def test_stepping_by_keys_buttons_and_list(page: Page, rest: Rest) -> None:
    found = asked(rest, PARTIAL)
    assert len(found["steps"]) == 2
    page.goto(f"/redistribute?{urlencode(PARTIAL)}")
    expect(page.get_by_test_id("state")).to_have_text("At the start: [dp, -] +tp")
    page.get_by_test_id("step:1").focus()
    page.keyboard.press("ArrowRight")
    says(page, "After step 1 of 2", f": {found['steps'][0]['target']}")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    says(page, "After step 2 of 2", ": [-, tp]")
    expect(page.get_by_role("button", name="Step forward")).to_be_disabled()
    page.get_by_role("button", name="Step back").click()
    expect(page.get_by_test_id("step:1")).to_have_attribute("aria-current", "step")
    page.keyboard.press("Home")
    says(page, "At the start: [dp, -] +tp")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_test_id("step:2")).to_have_attribute("aria-current", "step")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_picture_and_table_say_what_the_server_says(page: Page, rest: Rest) -> None:
    found = asked(rest, PARTIAL)
    page.goto(f"/redistribute?{urlencode(PARTIAL)}")
    page.get_by_test_id("step:2").click()
    for rank in (0, 5):
        page.get_by_test_id(f"rank:{rank}").hover()
        expect(page.get_by_test_id("looked")).to_have_text(
            f"rank {rank} (dp {rank // 4}, tp {rank % 4}) holds {part(found['slices'][2]['slices'][rank])}, "
            f"new is {part(found['steps'][1]['arrives'][rank][0])}"
        )
    page.get_by_text("Table", exact=True).click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(9)
    cells = rows.nth(1 + 5).get_by_role("cell").all_inner_texts()
    (low, high), (left, right) = found["slices"][2]["slices"][5]
    new = " ".join(part(box) for box in found["steps"][1]["arrives"][5])
    assert cells == ["5", "1", "1", f"{low}:{high}", f"{left}:{right}", new]
    page.get_by_role("button", name="Step back").click()
    expect(rows.nth(6).get_by_role("cell").last).to_have_text(part(found["slices"][1]["slices"][5]))


WRONG = [
    ("source", "[dp, tq]", "tq", "The mesh dp:2,tp:4 has no axis 'tq'."),
    ("target", "[dp, -", " ", "is expected in place of the end"),
    ("mesh", "dp:2,tp4", "tp4", "'tp4' is not a mesh axis."),
    ("shape", "16x0", "0", "'16x0' is not a shape."),
    ("dtype", "float7", "", "'float7' is no element type."),
    ("cluster", "8x8-h1", "", "h1"),
    ("cluster", "8x8-h100-sxm", "", "has 64 devices"),
]


def test_a_wrong_text_is_marked_where_it_is_typed_and_nothing_is_lost(page: Page, faults: Faults) -> None:
    faults.allow("status of 422")
    page.goto(f"/redistribute?{urlencode(PARTIAL)}")
    page.get_by_test_id("step:1").click()
    for name, text, marked, sentence in WRONG:
        field = page.get_by_test_id(f"field:{name}")
        before = field.input_value()
        field.fill(text)
        page.keyboard.press("Enter")
        said = page.get_by_role("alert")
        expect(said).to_contain_text(sentence)
        if marked:
            assert page.get_by_test_id("caret").locator("mark").inner_text() == marked
            assert page.get_by_test_id("caret").inner_text().strip() == text
        expect(field).to_have_value(text)
        says(page, "After step 1 of 2")
        field.fill(before)
        expect(said).to_have_count(0)
    page.get_by_role("button", name="Swap the two layouts").click()
    page.get_by_test_id("field:source").fill("[-, tp]")
    page.get_by_test_id("field:target").fill("P('dp', None)")
    page.keyboard.press("Enter")
    # The address holds what was asked, once it is answered, and opens it again.
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query)["to"] == ["P('dp', None)"])
    assert parse_qs(urlsplit(page.url).query)["from"] == ["[-, tp]"]
    expect(page.get_by_test_id("state")).to_have_text("At the start: [-, tp]")
    page.reload()
    expect(page.get_by_test_id("step:1")).to_contain_text("[dp, -]")


def test_nothing_to_move_and_many_ranks_are_told(page: Page) -> None:
    same = {"mesh": "a:4096", "shape": "4096", "from": "[a]", "to": "[a]"}
    page.goto(f"/redistribute?{urlencode(same)}")
    expect(page.get_by_text("Nothing has to move")).to_be_visible()
    expect(page.get_by_text("Shown are the first 64 of 4,096 ranks.")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_disabled()


def test_a_collective_opens_its_redistribution(designer: Designer) -> None:
    page = designer.page
    designer.pick("o_proj")
    edge = next(e for e in designer.state()["view"]["edges"] if e["producer"] == designer.node("o_proj")["id"])
    badge = page.get_by_test_id("badge").filter(has_text=edge["badges"][0]["source"]).first
    badge.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_test_id("field:source")).to_have_value(edge["tensor"]["layout"])
    shape = "x".join(str(cell["total"]) for cell in edge["tensor"]["cells"])
    expect(dialog.get_by_test_id("field:shape")).to_have_value(shape)
    expect(dialog.get_by_test_id("step:1")).to_contain_text(edge["badges"][0]["kind"].replace("_", "-"))
    # From there on it is a form as any other.
    dialog.get_by_test_id("field:target").fill(edge["tensor"]["layout"])
    page.keyboard.press("Enter")
    expect(dialog.get_by_text("Nothing has to move")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(badge).to_be_focused()


def test_a_collective_opens_from_the_graph(designer: Designer) -> None:
    """A double click on the pixels of the badge, which stands below its producer."""
    page = designer.page
    node = designer.node("o_proj")["id"]
    page.evaluate("(id) => window.__graph.center(id)", node)
    designer.settle()
    box = page.evaluate("(id) => window.__graph.screenOf(id)", node)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"]
    below = page.evaluate(FIRST_BADGE, [x, y])
    page.mouse.dblclick(x, y + below)
    expect(page.get_by_role("dialog")).to_contain_text("Redistribution of o_proj, forward")


def test_the_slice_map_of_a_tensor(designer: Designer) -> None:
    page = designer.page
    designer.pick("q_proj")
    page.get_by_test_id("slices:weight").click()
    dialog = page.get_by_role("dialog", name="Slice map of weight of q_proj")
    expect(dialog).to_contain_text("[tp, -] of 4,096 × 4,096")
    dialog.get_by_test_id("rank:6").hover()
    expect(dialog.get_by_test_id("looked")).to_have_text("rank 6 (dp 1, tp 2) holds [2048:3072, 0:4096]")
    dialog.get_by_text("Table", exact=True).click()
    expect(dialog.get_by_role("columnheader")).to_have_text(["Rank", "dp", "tp", "n of 4,096", "k of 4,096"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(new_context: NewContext, rest: Rest, faults: Faults, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    faults.allow("status of 422")
    page = new_context(color_scheme=theme, bypass_csp=True).new_page()
    page.goto(f"/redistribute?{urlencode(PARTIAL)}")
    page.add_script_tag(path=Path(AXE))
    page.get_by_test_id("step:1").click()
    found = faults_of(page, "picture")
    page.get_by_text("Table", exact=True).click()
    expect(page.get_by_role("table")).to_be_visible()
    found += faults_of(page, "table")
    page.get_by_test_id("field:source").fill("[dp, tq]")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("caret")).to_be_visible()
    found += faults_of(page, "wrong layout")

    designer = Designer(page, rest, rest.new_plan()["id"]).open()
    page.add_script_tag(path=Path(AXE))
    designer.pick("o_proj")
    page.get_by_test_id("badge").first.click()
    expect(page.get_by_test_id("ranks")).to_be_visible()
    found += faults_of(page, "dialog")
    page.keyboard.press("Escape")
    page.get_by_test_id("slices:weight").click()
    expect(page.get_by_test_id("ranks")).to_be_visible()
    found += faults_of(page, "slice map")
    assert found == []


def test_options_ask_for_another_way(page: Page, rest: Rest) -> None:
    query = {"mesh": MESH, "shape": "64x64", "from": "[dp, tp]", "to": "[tp, dp]"}
    page.goto(f"/redistribute?{urlencode(query)}")
    expect(page.get_by_test_id("step:1")).to_contain_text("exchange")
    page.get_by_role("button", name="More options").click()
    page.get_by_role("switch", name="direct exchange").click()
    expect(page.get_by_test_id("step:1")).not_to_contain_text("exchange")
    page.get_by_role("switch", name="other ways").click()
    body = {"source": "[dp, tp]", "target": "[tp, dp]", "mesh": MESH, "shape": "64x64", "exchange": False}
    front = rest.ask("POST", "/redistribute", body | {"front": True})["front"]
    expect(page.get_by_test_id("front").locator("tbody tr")).to_have_count(len(front))
    assert "exchange=no" in page.url
    # A reshape: the picture changes its dims with the state.
    page.goto(f"/redistribute?{urlencode(query | {'to': '[dp·tp]', 'to-shape': '4096'})}")
    expect(page.get_by_test_id("field:to_shape")).to_have_value("4096")
    page.get_by_test_id("step:1").focus()
    page.keyboard.press("End")
    expect(page.get_by_test_id("looked")).to_contain_text("holds [0:512]")
