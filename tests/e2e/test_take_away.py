"""Must show 6: what the page exports is what the command line writes; proofs run from the page."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import uvicorn
from playwright.sync_api import Download, Page, expect

from backend.app import create_app
from backend.jobs import Bundle
from tests.backend import sabotage
from tests.backend.server import free_port
from tests.cli.command import shardwright

from .designer import TINY, Designer, Rest

# Starting ranks takes longest, and other work may be running beside it.
PROOF_MS = 120_000


def saved(download: Download) -> bytes:
    return Path(download.path()).read_bytes()


def test_the_exported_zip_is_the_bundle_of_the_command_line(designer: Designer, tmp_path: Path) -> None:
    page = designer.page
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as plan_file:
        page.get_by_role("menuitem", name="Plan file").click()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as bundle:
        page.get_by_role("menuitem", name="Code as a zip").click()

    plan, folder = tmp_path / "plan.json", tmp_path / "bundle"
    plan.write_bytes(saved(plan_file.value))
    assert bundle.value.suggested_filename == f"plan-{designer.plan_id}.zip"
    ran = shardwright("export", str(plan), str(folder))
    assert ran.code == 0, ran.err
    written = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    with ZipFile(BytesIO(saved(bundle.value))) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    assert sorted(packed) == sorted(written)
    assert [name for name in packed if packed[name] != written[name]] == []
    assert b"q_proj" in packed["model.py"]


def test_the_plan_file_opens_as_the_same_plan(designer: Designer) -> None:
    page = designer.page
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as plan_file:
        page.get_by_role("menuitem", name="Plan file").click()
    text, before = saved(plan_file.value).decode(), designer.state()
    page.get_by_role("link", name="Shardwright, start page").click()
    page.get_by_role("textbox", name="Or paste it").fill(text)
    page.get_by_role("button", name="Import").click()
    page.wait_for_url("**/plans/*")
    opened = Designer.on(page, designer.rest)
    assert opened.plan_id != designer.plan_id
    after = opened.state()
    assert after["decisions"] == before["decisions"]
    opened.shows(before)


def test_a_proof_runs_with_progress_and_a_row_for_each_parameter(page: Page, rest: Rest) -> None:
    pytest.importorskip("torch")
    designer = Designer(page, rest, rest.new_plan(**TINY)["id"]).open()
    panel = designer.tab("prove")
    panel.get_by_role("button", name="Prove this plan").click()
    expect(panel.get_by_role("progressbar", name="Progress of the proof")).to_be_visible()
    expect(panel.get_by_test_id("verdict")).to_contain_text("Equal to the unsharded model", timeout=PROOF_MS)
    rows = panel.get_by_test_id("proof").locator("tbody tr")
    names = rows.locator("td:first-child").all_inner_texts()
    assert "loss" in names
    assert any(name.endswith("q_proj.weight") for name in names)
    expect(panel.locator('tr[data-ok="true"]')).to_have_count(len(names))
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    expect(panel).to_contain_text("The plan was changed since")


def test_a_proof_can_be_cancelled(page: Page, rest: Rest) -> None:
    pytest.importorskip("torch")
    designer = Designer(page, rest, rest.new_plan(**TINY)["id"]).open()
    panel = designer.tab("prove")
    panel.get_by_role("button", name="Prove this plan").click()
    panel.get_by_role("button", name="Cancel").click()
    expect(panel.get_by_role("status")).to_have_text("Cancelled.")
    expect(panel.get_by_role("button", name="Prove again")).to_be_enabled()


class InProcess:
    """A server in a thread, for an application that only a test can make; speaks as `Server` does."""

    def __init__(self, port: int, bundle: Bundle) -> None:
        application = create_app(bundle=bundle)
        self.port = port
        self.server = uvicorn.Server(uvicorn.Config(application, port=port, http="h11", log_config=None))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> InProcess:
        self.thread.start()
        deadline = time.monotonic() + 120
        while not self.server.started:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)


@pytest.fixture
def sabotaged() -> Iterator[str]:
    """Address of a server whose bundles lack a sum."""
    pytest.importorskip("torch")
    with InProcess(free_port(), sabotage.without_an_all_reduce) as running:
        yield f"http://127.0.0.1:{running.port}"


@pytest.fixture
def broken() -> Iterator[str]:
    """Address of a server whose bundles fail where they add up."""
    pytest.importorskip("torch")
    with InProcess(free_port(), sabotage.that_fails_on_ranks) as running:
        yield f"http://127.0.0.1:{running.port}"


def test_a_wrong_bundle_shows_red_rows(page: Page, sabotaged: str) -> None:
    page.goto(sabotaged)
    page.get_by_test_id("example:llama-tiny").click()
    page.get_by_role("tab", name="prove").click()
    panel = page.get_by_role("tabpanel")
    panel.get_by_role("button", name="Prove this plan").click()
    expect(panel.get_by_test_id("verdict")).to_contain_text("Not equal to the unsharded model", timeout=PROOF_MS)
    wrong = panel.locator('tr[data-ok="false"]')
    expect(wrong.first).to_contain_text("differs")
    colour = wrong.first.locator("td").last.evaluate("(cell) => getComputedStyle(cell).color")
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    assert red > 2 * max(green, blue), colour
    # A sum is left out: the row leads to the edge that it is on, and to who makes its value.
    expect(panel.get_by_test_id("collectives")).to_contain_text("ran on all ranks together, each as planned")
    named = panel.get_by_role("button", name="Select the edge").first
    label = named.inner_text().removeprefix("edge ")
    named.click()
    current = page.locator('[data-testid^="edge:"][data-current="true"]')
    expect(current).to_have_count(1)
    expect(current).to_be_visible()
    assert label in (current.get_attribute("data-testid") or "")
    panel.get_by_role("button", name="Select the operator").first.click()
    expect(page.get_by_test_id("inspected")).to_be_visible()


def test_a_rank_that_fails_is_told_in_words(page: Page, broken: str) -> None:
    page.goto(broken)
    page.get_by_test_id("example:llama-tiny").click()
    page.get_by_role("tab", name="prove").click()
    panel = page.get_by_role("tabpanel")
    panel.get_by_role("button", name="Prove this plan").click()
    expect(panel.get_by_test_id("verdict")).to_contain_text("of the ranks failed", timeout=PROOF_MS)
    failures = panel.get_by_test_id("failures").get_by_role("listitem")
    expect(failures.first).to_contain_text("rank 0")
    expect(failures.first).to_contain_text("ArithmeticError: no such sum")
