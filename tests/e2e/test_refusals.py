"""Must show 4, first part: what is illegal can't be clicked, and says why and what to do instead."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Faults
from .designer import Designer, Rest

# Eight groups of keys can't be cut in 32: heads get equal parts, or none.
MANY = {"cluster": "4x8-h100-sxm", "mesh": [{"name": "tp", "size": 32}], "presets": []}


@pytest.fixture
def refused(page: Page, rest: Rest) -> Locator:
    """A chip that may not be clicked: more ranks than key-value groups."""
    designer = Designer(page, rest, rest.new_plan(**MANY)["id"]).open()
    designer.pick("attention")
    chip = page.locator('[data-testid^="chip:"][aria-disabled="true"][aria-busy="false"]').first
    expect(chip).to_be_visible()
    return chip


def tells_why(tooltip: Locator) -> None:
    expect(tooltip).to_be_visible()
    text = tooltip.inner_text()
    assert "32" in text, text
    assert "8" in text, text
    remedy = tooltip.locator("span").last
    assert len(remedy.inner_text()) > 10, text


def test_hovering_an_illegal_chip_tells_numbers_and_remedy(page: Page, refused: Locator) -> None:
    refused.hover()
    tells_why(page.get_by_role("tooltip"))


def test_so_does_the_focus(page: Page, refused: Locator) -> None:
    # The keyboard gets to it by Tab; a focus by script counts as one when the last input was a key.
    page.keyboard.press("Shift")
    refused.focus()
    tells_why(page.get_by_role("tooltip"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)


def test_clicking_it_changes_nothing(page: Page, refused: Locator) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    refused.click(force=True)
    page.keyboard.press("Enter")
    assert "PATCH" not in sent
    expect(refused).to_have_attribute("aria-pressed", "false")


def test_a_digit_key_on_it_is_refused_in_its_row(page: Page, refused: Locator) -> None:
    refused.focus()
    page.keyboard.press("1")
    alert = page.get_by_role("region", name="Inspector").get_by_role("alert")
    expect(alert).to_contain_text("32")


def test_a_refused_preset_is_told_above_the_graph(page: Page, rest: Rest, faults: Faults) -> None:
    faults.allow("status of 422")
    # The vocabulary of the embedding is over dp already, so its batch can't be.
    taken = [{"name": "megatron", "axes": {"axis": ["dp"]}}]
    designer = Designer(page, rest, rest.new_plan(presets=taken)["id"]).open()
    before = designer.state()
    page.get_by_role("button", name="Presets").click()
    page.get_by_role("menuitem", name="Data parallel over dp").click()
    banner = page.get_by_test_id("refusal")
    expect(banner).to_contain_text("Not made: Data parallel over dp.")
    expect(banner).to_contain_text("an operator may use an axis once")
    banner.get_by_role("button", name="Dismiss").click()
    expect(banner).to_have_count(0)
    assert designer.state() == before


def test_a_refused_batch_is_told_by_its_fields_and_a_precision_is_taken(designer: Designer, faults: Faults) -> None:
    faults.allow("status of 422")
    page = designer.page
    page.get_by_test_id("mesh").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Sequence").fill("3000000000")
    dialog.get_by_role("button", name="Change the batch").click()
    expect(dialog.get_by_role("region", name="Batch").get_by_role("alert")).to_contain_text("2147483648")
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Precision").click()
    with designer.edit():
        page.get_by_role("option", name="fp32", exact=True).click()
    assert designer.state()["precision"] == "fp32"
