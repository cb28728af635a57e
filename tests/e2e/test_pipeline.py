"""Pipeline schedules on a page of their own: numbers are the server's, two on one axis, refusals lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from planner.schedules import SCHEDULES, read_csv

from .conftest import Faults, NewContext
from .designer import Rest
from .test_accessible import AXE, faults_of

PLOT = "Passes of every rank over time"


def cells(page: Page, name: str) -> list[str]:
    return page.get_by_test_id(f"numbers:{name}").get_by_role("cell").all_inner_texts()


def test_switch_and_compare(page: Page, rest: Rest) -> None:
    page.goto("/pipeline?ranks=4&microbatches=8&send=0&against=")
    expect(page.get_by_test_id("numbers:1f1b")).to_be_visible()
    # 1F1B: m + p - 1 rounds of F and B, here of 1 and 2.
    assert cells(page, "1f1b")[0] == "33"
    page.get_by_test_id("field:name").click()
    page.get_by_role("option", name="zb-h1", exact=True).click()
    expect(page.get_by_test_id("numbers:zb-h1")).to_be_visible()
    page.get_by_test_id("field:against").click()
    page.get_by_role("option", name="gpipe", exact=True).click()
    expect(page.get_by_test_id("numbers:gpipe")).to_be_visible()
    asked = {"name": "zb-h1", "against": "gpipe", "ranks": 4, "microbatches": 8}
    for numbers in rest.ask("POST", "/schedules", asked)["schedules"]:
        assert float(cells(page, numbers["name"])[0]) == pytest.approx(numbers["makespan"], rel=1e-4)
    expect(page.get_by_role("img", name=PLOT)).to_have_accessible_name(f"{PLOT}, zb-h1 above gpipe")
    page.get_by_text("Kept by gpipe", exact=True).click()
    expect(page.get_by_role("img", name="Microbatches kept by every rank over time")).to_be_visible()
    # The address opens the same again.
    page.reload()
    expect(page.get_by_test_id("numbers:zb-h1")).to_be_visible()
    expect(page.get_by_test_id("numbers:gpipe")).to_be_visible()


def test_a_refusal_keeps_what_was_there(page: Page, faults: Faults) -> None:
    faults.allow("status of 422")
    page.goto("/pipeline?name=zb-v&against=&ranks=4&microbatches=8")
    expect(page.get_by_test_id("numbers:zb-v")).to_be_visible()
    page.get_by_test_id("field:per_rank").fill("3")
    expect(page.get_by_role("alert")).to_contain_text("Cut the model into 8 parts for 4 ranks.")
    expect(page.get_by_test_id("numbers:zb-v")).to_be_visible()
    page.get_by_test_id("field:per_rank").fill("2")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_what_is_too_large_is_refused_at_once(page: Page, faults: Faults) -> None:
    faults.allow("status of 422")
    page.goto("/pipeline?against=&ranks=1024&microbatches=4096")
    expect(page.get_by_role("alert")).to_contain_text("more than the 200,000 that are drawn")


def test_the_order_to_take_away(page: Page) -> None:
    page.goto("/pipeline?name=zb-h1&against=&ranks=2&microbatches=4")
    with page.expect_download() as caught:
        page.get_by_role("button", name="CSV for PyTorch").click()
    assert caught.value.suggested_filename == "zb-h1.csv"
    text = Path(caught.value.path()).read_text("utf-8")
    assert read_csv(text).orders == SCHEDULES["zb-h1"].build(2, 4).orders


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(new_context: NewContext, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    page = new_context(color_scheme=theme, bypass_csp=True).new_page()
    page.goto("/pipeline")
    page.add_script_tag(path=Path(AXE))
    expect(page.get_by_test_id("numbers:1f1b")).to_be_visible()
    assert faults_of(page, "pipeline") == []
