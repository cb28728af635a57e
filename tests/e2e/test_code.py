"""Must show: lines of the exported code and edges of the graph lead to each other; what an edit changed in the code."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, Route, expect

from .conftest import NewContext
from .designer import Designer, Rest

LIT = "() => { const { view } = window.__graph; return view.scene.studio.model.tensors[view.litTensor()]?.id ?? ''; }"


TOLD = """(rows) => rows.map((row) => {
    const [old, now, text] = row.cells;
    return [row.dataset.change, old.innerText, now.innerText, text.querySelector("code").textContent];
})"""


def files_of(designer: Designer) -> dict[str, str]:
    return {file["path"]: file["text"] for file in designer.rest.ask("GET", f"/plans/{designer.plan_id}/code")["files"]}


def line(panel: Locator, number: int) -> Locator:
    return panel.locator(f'[data-line="{number}"]')


def mark_of(designer: Designer, edge: str) -> dict[str, int]:
    """Return where an edge is written, by REST."""
    marks = designer.rest.ask("GET", f"/plans/{designer.plan_id}/code")["marks"]
    return next(mark for mark in reversed(marks) if edge in mark["edges"])


def edge_between(designer: Designer, label: str) -> str:
    """Return the id of the edge from an operator, which must have collectives."""
    node = designer.node(label)["id"]
    edges = designer.state()["view"]["edges"]
    return next(str(edge["id"]) for edge in edges if edge["producer"] == node and edge["badges"])


def rebuilt(rows: list[list[str]], before: list[str]) -> list[str]:
    """Return the text that comes of the text before by the rows of a comparison: change, its two numbers, the line."""
    text = list(before)
    for change, old, _, line in reversed(rows):
        if change == "out":
            assert text.pop(int(old) - 1) == line
    for change, _, new, line in rows:
        if change == "in":
            text.insert(int(new) - 1, line)
    return text


def test_every_file_is_shown_and_copied(new_context: NewContext, rest: Rest) -> None:
    context = new_context(permissions=["clipboard-read", "clipboard-write"])
    designer = Designer(context.new_page(), rest, rest.new_plan()["id"]).open()
    panel = designer.tab("code")
    files = files_of(designer)
    source = panel.get_by_test_id("source")
    expect(line(panel, 1)).to_be_attached()
    assert source.text_content() == files["model.py"]
    for path in files:
        expect(panel.get_by_test_id(f"file:{path}")).to_be_visible()
    panel.get_by_test_id("file:train.py").click()
    expect(source).to_contain_text("SETTINGS")
    assert source.text_content() == files["train.py"]
    # What is marked and copied by hand has no numbers in it.
    picked = (
        "(e) => { getSelection().selectAllChildren(e); const t = getSelection().toString(); getSelection().empty();"
    )
    assert source.evaluate(f"{picked} return t; }}").rstrip("\n") == files["train.py"].rstrip("\n")
    panel.get_by_role("button", name="Copy train.py").click()
    expect(panel.get_by_role("button", name="Copied")).to_be_visible()
    assert designer.page.evaluate("() => navigator.clipboard.readText()") == files["train.py"]


def test_a_collective_in_the_code_selects_its_edge(designer: Designer) -> None:
    edge = edge_between(designer, "o_proj")
    mark = mark_of(designer, edge)
    panel = designer.tab("code")
    line(panel, mark["last"]).click()
    expect(designer.inspected).to_have_text("o_proj")
    expect(designer.page.get_by_test_id(f"edge:{edge}")).to_have_attribute("data-current", "true")
    expect(designer.page.get_by_test_id(f"edge:{edge}")).to_be_in_viewport()
    lit = panel.locator('[data-line][data-current="true"]')
    expect(lit).to_have_count(mark["last"] - mark["first"] + 1)
    designer.settle()
    assert designer.page.evaluate(LIT) == edge
    # Another selection puts the light out again.
    designer.pick("q_proj")
    expect(designer.page.locator('[data-testid^="edge:"][data-current="true"]')).to_have_count(0)
    assert designer.page.evaluate(LIT) == ""
    node = designer.node("q_proj")["id"]
    marks = designer.rest.ask("GET", f"/plans/{designer.plan_id}/code")["marks"]
    own = next(each for each in marks if node in each["nodes"])
    expect(line(panel, own["first"])).to_have_attribute("data-current", "true")


def test_an_edge_of_the_inspector_leads_to_its_line(designer: Designer) -> None:
    edge = edge_between(designer, "o_proj")
    mark = mark_of(designer, edge)
    designer.pick("o_proj")
    designer.page.get_by_test_id(f"code:edge:{edge}").click()
    panel = designer.page.get_by_role("tabpanel")
    first = line(panel, mark["first"])
    expect(first).to_be_in_viewport()
    expect(first).to_have_attribute("data-current", "true")
    expect(first).to_contain_text("# model.layers.*.self_attn.o_proj, ")
    # From another file it comes back.
    panel.get_by_test_id("file:train.py").click()
    expect(panel.get_by_test_id("source")).to_contain_text("SETTINGS")
    designer.page.get_by_test_id(f"code:edge:{edge}").click()
    expect(line(panel, mark["first"])).to_be_in_viewport()


def test_lines_are_selected_by_keyboard(designer: Designer) -> None:
    panel = designer.tab("code")
    marks = [m for m in designer.rest.ask("GET", f"/plans/{designer.plan_id}/code")["marks"] if m["path"] == "model.py"]
    stops = panel.locator('button[tabindex="0"][aria-label^="Line "]')
    expect(stops).to_have_count(1)
    stops.focus()
    designer.page.keyboard.press("ArrowDown")
    second = panel.get_by_role("button", name=f"Line {marks[1]['first']}: select")
    expect(second).to_be_focused()
    designer.page.keyboard.press("Enter")
    expect(second).to_have_attribute("aria-pressed", "true")
    expect(designer.inspected).to_be_visible()
    expect(second).to_be_focused()


def test_changes_are_those_of_the_last_edit_or_of_more(designer: Designer) -> None:
    panel = designer.tab("code")
    panel.get_by_text("Changes", exact=True).click()
    expect(panel).to_contain_text("The plan was not edited yet")
    texts = [files_of(designer)]
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    texts.append(files_of(designer))
    designer.pick("o_proj")
    designer.toggle("n", "tp")
    texts.append(files_of(designer))
    for back in (1, 2):
        if back == 2:
            panel.get_by_role("combobox", name="Changes since before").click()
            designer.page.get_by_role("option").nth(1).click()
        before, after = texts[-1 - back], texts[-1]
        shown = panel.get_by_test_id("diff:model.py")
        # Whatever a comparison takes for equal: what it takes out and puts in makes one text of the other.
        rows = shown.locator("tr[data-change]")
        expect(rows.first).to_be_visible()
        told = rows.evaluate_all(TOLD)
        assert {"in", "out", "same"} == {change for change, *_ in told}
        assert rebuilt(told, before["model.py"].split("\n")) == after["model.py"].split("\n")
    # What checks the bundle changes with it, and is left out.
    own = (path for path in after if not path.startswith(("check/", "selfcheck.py")))
    differing = sorted(path for path in own if before.get(path) != after[path])
    assert panel.locator('[data-testid^="diff:"]').count() == len(differing)


def test_a_form_that_does_not_fit_says_why_and_is_not_downloaded(page: Page, rest: Rest) -> None:
    # Inputs of q_proj are cut and those of k_proj are not: no style of torch's does that.
    wanted, state = "native", rest.new_plan()
    factor = {"type": "factor", "target": "layers.*.self_attn.q_proj"}
    state = rest.edit(state, factor | {"factor": "n", "axes": []}, factor | {"factor": "k", "axes": ["tp"]})
    forms = {form["name"]: form["problem"] for form in rest.ask("GET", f"/plans/{state['id']}/forms")}
    assert forms["explicit"] is None
    assert forms[wanted]
    panel = Designer(page, rest, state["id"]).open().tab("code")
    expect(panel.get_by_role("link", name="Download zip")).to_be_visible()
    panel.get_by_test_id(f"form:{wanted}").click()
    said = panel.get_by_role("alert")
    expect(said).to_contain_text(forms[wanted]["detail"])
    expect(said).to_contain_text(forms[wanted]["code"])
    expect(panel.get_by_role("button", name="Download zip")).to_be_disabled()
    panel.get_by_test_id("form:explicit").click()
    expect(panel.get_by_test_id("file:model.py")).to_be_visible()


def test_what_cannot_be_exported_is_told_in_place_of_a_download(designer: Designer) -> None:
    page = designer.page
    problem = {
        "type": "about:blank", "title": "", "status": 422, "detail": "It comes from an ONNX file.", "hint": "Use more.",
        "code": "export.onnx-source", "subject": "", "place": None,
    }  # fmt: skip

    def refuse(route: Route) -> None:
        forms = [{"name": name, "summary": "", "problem": problem} for name in ("explicit", "native")]
        route.fulfill(content_type="application/json", body=json.dumps(forms))

    page.route("**/plans/*/forms", refuse)
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Code as a zip").click()
    said = page.get_by_role("tabpanel").get_by_role("alert")
    expect(said).to_contain_text("It comes from an ONNX file.")
    expect(said).to_contain_text("export.onnx-source")
