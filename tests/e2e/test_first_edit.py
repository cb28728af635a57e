"""Must show 1: a newcomer gets from the start page to an edited plan with three clicks."""

from __future__ import annotations

import time

from playwright.sync_api import Page, expect

from .designer import Designer, Rest


def test_from_the_start_page_to_an_edited_plan(page: Page, rest: Rest) -> None:
    started = time.monotonic()
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Decide how a model is split")
    page.get_by_test_id("example:llama-3-8b").first.click()
    designer = Designer.on(page, rest)
    before = designer.state()
    designer.shows(before)
    designer.click_in_graph("q_proj")
    designer.toggle("k", "tp")
    after = designer.state()
    assert after["version"] == before["version"] + 1
    assert after["summary"]["step_time_s"] != before["summary"]["step_time_s"]
    assert time.monotonic() - started < 60


def test_the_plan_has_an_address_and_the_back_button_works(page: Page, rest: Rest) -> None:
    page.goto("/")
    page.get_by_test_id("example:llama-tiny").click()
    designer = Designer.on(page, rest)
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    page.go_back()
    expect(page.get_by_role("heading", name="Recent plans")).to_be_visible()
    page.go_forward()
    # As it is now, not as it was when it was made.
    designer.ready().shows(designer.state())
    page.reload()
    designer.ready().shows(designer.state())
    page.get_by_role("link", name="Shardwright, start page").click()
    page.get_by_test_id(f"plan:{designer.plan_id}").get_by_role("link").first.click()
    designer.ready().shows(designer.state())
