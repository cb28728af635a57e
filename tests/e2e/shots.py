"""Pictures of every screen in both themes at two widths, to be looked at: `make shots`.

All are written to build/shots; those that the documentation shows also to docs/screenshots.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.backend.server import ROOT, Server

from .chromium import FLAGS, find_chromium
from .designer import TINY, Designer, Rest

ALL, SHOWN = ROOT / "build" / "shots", ROOT / "docs" / "screenshots"
DOCUMENTED = {
    "designer-light-1440": "designer",
    "designer-dark-1440": "designer-dark",
    "start-light-1440": "start",
    "partial-sum-light-1440": "redistribution",
}
HEIGHTS = {1440: 900, 1024: 768}
LARGE = {
    "model": "llama-3-70b", "name": "Llama-3 70B, ZeRO-3 × tensor", "cluster": "8x8-h100-sxm", "global_batch": 64,
    "seq": 8192, "microbatches": 8, "mesh": [{"name": "dp", "size": 8}, {"name": "tp", "size": 8}],
    "presets": [
        {"name": name, "axes": {"axis": [axis]}}
        for name, axis in (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    ],
}  # fmt: skip


class Studio:
    """A page of one theme and width, and the screens that it can be brought to show."""

    def __init__(self, page: Page, rest: Rest, plan: str, tiny: str) -> None:
        self.page, self.rest = page, rest
        self.plan, self.tiny = plan, tiny

    def designer(self) -> Designer:
        designer = Designer(self.page, self.rest, self.plan).open()
        designer.settle()
        return designer

    def start(self) -> None:
        self.page.goto("/")
        expect(self.page.get_by_test_id(f"plan:{self.plan}")).to_be_visible()
        expect(self.page.get_by_role("form", name="New plan")).to_be_visible()

    def nothing_selected(self) -> None:
        self.designer()

    def operator(self) -> None:
        designer = self.designer()
        designer.click_in_graph("o_proj")
        expect(designer.chip("k", "tp")).to_be_visible()
        designer.page.mouse.move(5, 5)

    def backward(self) -> None:
        self.operator()
        self.page.get_by_text("Backward", exact=True).click()

    def _fused(self) -> Designer:
        designer = self.designer()
        for control, label in (("fusion", "Auto"), ("place:optimizer", "Host"), ("recompute-all", "Attention")):
            with designer.edit():
                self.page.get_by_test_id(control).get_by_text(label, exact=True).click()
        return designer

    def training(self) -> None:
        self._fused()

    def in_buckets(self) -> None:
        designer = self._fused()
        self.page.get_by_text("Backward", exact=True).click()
        designer.click_in_graph("post_attention_layernorm")
        self.page.mouse.move(5, 5)

    def buckets(self) -> None:
        self.in_buckets()
        self.page.get_by_test_id("in-bucket").first.click()
        expect(self.page.get_by_role("dialog")).to_be_visible()

    def group(self) -> None:
        designer = self.designer()
        designer.pick("q_proj")
        self.page.get_by_role("treeitem").filter(has_text="self_attn").first.click()
        expect(designer.inspected).to_be_visible()

    def refusal(self) -> None:
        designer = self.designer()
        designer.pick("attention")
        chip = self.page.locator('[data-testid^="chip:"][aria-disabled="true"][aria-busy="false"]').first
        chip.hover()
        expect(self.page.get_by_role("tooltip")).to_be_visible()

    def _tab(self, name: str) -> None:
        panel = self.designer().tab(name)
        expect(panel.get_by_role("status", name="Loading")).to_have_count(0)
        if name == "communication":
            expect(panel.locator(".bars .point").first).to_be_visible()

    def communication(self) -> None:
        self._tab("communication")

    def costs(self) -> None:
        self._tab("costs")

    def code(self) -> None:
        self._tab("code")

    def code_of_an_edge(self) -> None:
        designer = self.designer()
        designer.click_in_graph("o_proj")
        self.page.get_by_role("button", name="Show the edge o_proj in the code").click()
        expect(self.page.get_by_role("tabpanel").locator('[data-current="true"]').first).to_be_visible()
        designer.page.mouse.move(5, 5)

    def changes_of_the_code(self) -> None:
        designer = self.designer()
        designer.pick("q_proj")
        designer.toggle("k", "tp")
        panel = designer.tab("code")
        panel.get_by_text("Changes", exact=True).click()
        expect(panel.get_by_test_id("diff:model.py")).to_be_visible()

    def diagnostics(self) -> None:
        self._tab("diagnostics")

    def prove(self) -> None:
        self._tab("prove")

    def proof(self) -> None:
        panel = Designer(self.page, self.rest, self.tiny).open().tab("prove")
        panel.get_by_role("button", name="Prove this plan").click()
        expect(panel.get_by_test_id("verdict")).to_be_visible(timeout=120_000)

    def mesh(self) -> None:
        self.designer()
        self.page.get_by_test_id("mesh").click()
        expect(self.page.get_by_role("dialog")).to_be_visible()

    def presets(self) -> None:
        self.designer()
        self.page.get_by_role("button", name="Presets").click()
        expect(self.page.get_by_role("menu")).to_be_visible()

    def find(self) -> None:
        self.designer()
        self.page.keyboard.press("Control+k")
        expect(self.page.get_by_role("textbox", name="Find an operator or a command")).to_be_visible()

    def keys(self) -> None:
        self.designer()
        self.page.keyboard.press("?")
        expect(self.page.get_by_role("dialog", name="Keys")).to_be_visible()

    def conflict(self) -> None:
        designer = self.designer()
        designer.pick("q_proj")
        change = {"type": "factor", "target": "lm_head", "factor": "batch", "axes": ["dp"]}
        self.rest.edit(designer.state(), change)
        designer.chip("k", "tp").click()
        expect(self.page.get_by_test_id("conflict")).to_be_visible()

    def _way(self, **fields: str) -> None:
        self.page.goto(f"/redistribute?{urlencode(fields)}")
        expect(self.page.get_by_test_id("ranks")).to_be_visible()

    def pipeline(self) -> None:
        self.page.goto("/pipeline?ranks=8&microbatches=16")
        expect(self.page.get_by_test_id("numbers:zb-h1")).to_be_visible()
        expect(self.page.locator(".barlayer").first).to_be_visible()

    def redistribution(self) -> None:
        self._way()
        self.page.get_by_test_id("step:1").click()

    def partial_sum(self) -> None:
        self._way(mesh="dp:2,tp:4", shape="4096x4096", **{"from": "[dp, -] +tp", "to": "[-, tp]"})
        self.page.get_by_role("button", name="Step forward").click()

    def three_dims(self) -> None:
        self._way(mesh="dp:2,cp:2,tp:2", shape="8x2048x4096", **{"from": "[dp, cp, tp]", "to": "[dp, tp, cp]"})
        self.page.get_by_role("button", name="Step forward").click()

    def rank_table(self) -> None:
        self._way(mesh="dp:2,tp:4", shape="4096x4096", **{"from": "[dp, tp]", "to": "[tp, dp]"})
        self.page.get_by_test_id("step:1").click()
        self.page.get_by_text("Table", exact=True).click()

    def wrong_layout(self) -> None:
        self._way()
        self.page.get_by_test_id("field:source").fill("[dp, tp·xx]")
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_test_id("caret")).to_be_visible()

    def step_through(self) -> None:
        designer = self.designer()
        designer.click_in_graph("o_proj")
        self.page.get_by_test_id("badge").first.click()
        expect(self.page.get_by_test_id("ranks")).to_be_visible()
        self.page.get_by_role("button", name="Step forward").click()

    def slices(self) -> None:
        designer = self.designer()
        designer.pick("q_proj")
        self.page.get_by_test_id("slices:weight").click()
        expect(self.page.get_by_test_id("ranks")).to_be_visible()

    def reshaped(self) -> None:
        self._way(mesh="a:4,b:2", shape="8x16", **{"from": "[a, b]", "to": "[b·a]", "to-shape": "128"})
        self.page.get_by_role("button", name="Step forward").click()

    def other_mesh(self) -> None:
        self._way(mesh="a:3,b:8", shape="24x24", **{"from": "[a, b]", "to": "[c, d]", "to-mesh": "c:8,d:3"})
        self.page.get_by_role("button", name="Step forward").click()

    def several(self) -> None:
        designer = self.designer()
        designer.pick("q_proj")
        for label in ("k_proj", "o_proj"):
            row = self.page.get_by_test_id(f"op:{designer.node(label)['id']}")
            row.click(modifiers=["Control"])
        expect(self.page.get_by_test_id("shared:k:tp")).to_be_visible()

    def other_ways(self) -> None:
        fields = {"from": "[dp, tp]", "to": "[tp, dp]", "exchange": "no", "front": "yes"}
        self._way(mesh="dp:2,tp:4", shape="4096x4096", **fields)
        self.page.get_by_role("button", name="Step forward").click()

    def missing(self) -> None:
        self.page.goto("/plans/gone")
        expect(self.page.get_by_role("alert")).to_be_visible()


SCREENS: dict[str, Callable[[Studio], None]] = {
    "start": Studio.start,
    "plan": Studio.nothing_selected,
    "designer": Studio.operator,
    "backward": Studio.backward,
    "training": Studio.training,
    "in-buckets": Studio.in_buckets,
    "buckets": Studio.buckets,
    "group": Studio.group,
    "refusal": Studio.refusal,
    "communication": Studio.communication,
    "costs": Studio.costs,
    "code": Studio.code,
    "code-of-an-edge": Studio.code_of_an_edge,
    "changes-of-the-code": Studio.changes_of_the_code,
    "diagnostics": Studio.diagnostics,
    "prove": Studio.prove,
    "proof": Studio.proof,
    "mesh": Studio.mesh,
    "presets": Studio.presets,
    "find": Studio.find,
    "keys": Studio.keys,
    "conflict": Studio.conflict,
    "pipeline": Studio.pipeline,
    "redistribution": Studio.redistribution,
    "partial-sum": Studio.partial_sum,
    "three-dims": Studio.three_dims,
    "rank-table": Studio.rank_table,
    "reshaped": Studio.reshaped,
    "other-mesh": Studio.other_mesh,
    "wrong-layout": Studio.wrong_layout,
    "other-ways": Studio.other_ways,
    "several": Studio.several,
    "step-through": Studio.step_through,
    "slices": Studio.slices,
    "missing": Studio.missing,
}


@contextmanager
def opened(browser: Browser, server: Server, theme: str, width: int) -> Iterator[Page]:
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{server.port}", viewport={"width": width, "height": HEIGHTS[width]},
        reduced_motion="reduce", color_scheme="dark" if theme == "dark" else "light", locale="en-US",
    )  # fmt: skip
    yield context.new_page()
    context.close()


def main(wanted: list[str]) -> None:
    """Take the pictures of the named screens, or of all."""
    path = find_chromium()
    assert path is not None, "no Chromium: set CHROMIUM to its path"
    subprocess.run([sys.executable, "hatch_build.py"], cwd=ROOT, check=True)
    shutil.rmtree(ALL, ignore_errors=True)
    ALL.mkdir(parents=True)
    SHOWN.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        Server(Path(data)) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=list(FLAGS)) as browser,
    ):
        rest = Rest(server)
        tiny = rest.new_plan(**TINY, name="Llama tiny")["id"]
        for theme in ("light", "dark"):
            for width in HEIGHTS:
                for name in wanted or SCREENS:
                    plan = rest.new_plan(**LARGE)["id"]
                    with opened(browser, server, theme, width) as page:
                        SCREENS[name](Studio(page, rest, plan, tiny))
                        take(page, f"{name}-{theme}-{width}")
                    rest.server.ask("DELETE", f"/api/v1/plans/{plan}")


def take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.evaluate("() => window.__graph?.settled()")
    picture = ALL / f"{name}.png"
    page.screenshot(path=picture, animations="disabled", full_page=name.startswith("start"))
    if name in DOCUMENTED:
        shutil.copyfile(picture, SHOWN / f"{DOCUMENTED[name]}.png")
    print(picture.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
