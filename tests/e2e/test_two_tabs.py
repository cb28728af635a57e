"""Must show 4, second part: two people at one plan, and a server that dies; nothing is lost."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.backend.server import Server

from .conftest import Faults, NewContext
from .designer import Designer, Rest, State, decided

ELSEWHERE = {"type": "factor", "target": "lm_head", "factor": "batch", "axes": []}


@pytest.fixture
def stale(designer: Designer, faults: Faults) -> tuple[Designer, State]:
    """A tab with an edit that was refused, since the plan was changed elsewhere; and the plan as it was made there."""
    faults.allow("status of 412")
    designer.pick("q_proj")
    before = designer.page.get_by_role("main").bounding_box()
    theirs = designer.rest.edit(designer.state(), ELSEWHERE)
    with designer.page.expect_response(lambda answer: answer.status == 412):
        designer.chip("k", "tp").click()
    banner = designer.page.get_by_test_id("conflict")
    expect(banner).to_contain_text("changed elsewhere")
    expect(banner).to_contain_text("move tp of q_proj from n to k")
    assert designer.page.get_by_role("main").bounding_box() == before
    # The edit is still drawn: nothing has been taken away from the one who made it.
    expect(designer.chip("k", "tp")).to_have_attribute("aria-pressed", "true")
    return designer, theirs


def has(state: State, target: str, factor: str) -> bool:
    return any(d["target"] == target and d.get("factor") == factor for d in state["decisions"])


def test_reload_shows_theirs_and_keeps_mine_at_hand(stale: tuple[Designer, State]) -> None:
    designer, theirs = stale
    designer.page.get_by_role("button", name="Reload").click()
    designer.shows(theirs)
    expect(designer.page.get_by_test_id("conflict")).to_have_count(0)
    leftover = designer.page.get_by_test_id("leftover")
    expect(leftover).to_contain_text("move tp of q_proj from n to k")
    with designer.edit():
        leftover.get_by_role("button", name="Make it again").click()
    both = designer.state()
    assert has(both, "lm_head", "batch")
    assert has(both, "model.layers.*.self_attn.q_proj", "k")


def test_keep_mine_as_a_copy_leaves_theirs_alone(stale: tuple[Designer, State]) -> None:
    designer, theirs = stale
    designer.page.get_by_role("button", name="Keep mine as a copy").click()
    designer.page.wait_for_url(lambda url: not url.endswith(designer.plan_id))
    mine = Designer.on(designer.page, designer.rest)
    copied = mine.state()
    assert has(copied, "model.layers.*.self_attn.q_proj", "k")
    assert not has(copied, "lm_head", "batch")
    assert copied["name"].endswith("(mine)")
    assert decided(designer.state()) == decided(theirs)
    mine.shows(copied)


def test_a_second_tab_of_the_browser_is_told_at_once(designer: Designer) -> None:
    other = Designer(designer.page.context.new_page(), designer.rest, designer.plan_id).open()
    other.pick("q_proj")
    other.toggle("k", "tp")
    expect(designer.page.get_by_test_id("conflict")).to_be_visible()
    designer.page.get_by_role("button", name="Reload").click()
    designer.shows(other.state())
    # Now it is up to date, and an edit of its own is accepted.
    designer.undo()
    expect(other.page.get_by_test_id("conflict")).to_be_visible()


def test_another_browser_gets_the_conflict_with_its_first_edit(
    designer: Designer, new_context: NewContext, faults: Faults
) -> None:
    faults.allow("status of 412")
    other = Designer(new_context().new_page(), designer.rest, designer.plan_id).open()
    designer.pick("q_proj")
    designer.toggle("k", "tp")
    other.pick("o_proj")
    other.chip("n", "tp").click()
    expect(other.page.get_by_test_id("conflict")).to_be_visible()


def test_kill_9_in_the_middle_of_editing_loses_no_accepted_edit(
    page: Page, faults: Faults, tmp_path_factory: pytest.TempPathFactory
) -> None:
    faults.allow("ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET")
    data = tmp_path_factory.mktemp("kill")
    with Server(data) as first:
        rest = Rest(first)
        plan_id = rest.new_plan()["id"]
        page.goto(f"http://127.0.0.1:{first.port}/plans/{plan_id}")
        designer = Designer.on(page, rest)
        designer.pick("q_proj")
        designer.toggle("k", "tp")
        accepted = designer.state()
        # A chip can be clicked once the server has said what it would do.
        expect(designer.chip("n", "tp")).to_be_enabled()
        first.kill()
        designer.chip("n", "tp").click()
        offline = page.get_by_test_id("offline")
        expect(offline).to_contain_text("does not answer")
        expect(designer.chip("n", "tp")).to_have_attribute("aria-pressed", "true")

    with Server(data, port=first.port) as second:
        designer.rest = Rest(second)
        assert decided(designer.state()) == decided(accepted)
        with designer.edit():
            offline.get_by_role("button", name="Try again").click()
        expect(offline).to_have_count(0)
        assert designer.state()["version"] == accepted["version"] + 1
        page.reload()
        designer.ready()
        designer.shows(designer.state())
