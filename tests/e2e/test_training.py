"""Gradients, places and recomputation are set in the inspector; the effect is seen at once, a refusal says why."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Faults
from .designer import Designer, Rest, decided

# Small enough to answer at once, and large enough that every decision shows in the numbers.
DATA_PARALLEL = {
    "mesh": [{"name": "dp", "size": 8}], "presets": [{"name": "data_parallel", "axes": {"axis": ["dp"]}}],
}  # fmt: skip


@pytest.fixture
def replicas(page: Page, rest: Rest) -> Designer:
    return Designer(page, rest, rest.new_plan(**DATA_PARALLEL)["id"]).open()


def choose(designer: Designer, control: str, label: str) -> None:
    with designer.edit():
        designer.page.get_by_test_id(control).get_by_text(label, exact=True).click()


def chosen(designer: Designer, control: str) -> Locator:
    return designer.page.get_by_test_id(control).get_by_role("radio", checked=True)


def test_fused_gradients_beside_backward_are_faster_and_undone(replicas: Designer) -> None:
    page, before = replicas.page, replicas.state()
    expect(page.get_by_test_id("buckets")).to_have_count(0)
    choose(replicas, "fusion", "Auto")
    fused = replicas.state()
    with replicas.edit():
        page.get_by_role("switch", name="Reduce beside backward").click()
    beside = replicas.state()
    # Packing is a copy, so that large gradients gain from fusion only what backward hides.
    alone, waited, hidden = (state["summary"]["step_time_s"] for state in (before, fused, beside))
    assert hidden < 0.95 * min(alone, waited)
    buckets = beside["view"]["buckets"]
    count = sum(bucket["count"] for bucket in buckets)
    assert fused["summary"]["collectives"] < before["summary"]["collectives"]
    expect(page.get_by_test_id("buckets")).to_contain_text(f"{count} buckets")

    # A gradient that goes with others says so, and leads to them, and they lead back to the graph.
    replicas.pick("q_proj")
    position, bucket = next((i, b) for i, b in enumerate(buckets) if any("q_proj" in edge for edge in b["edges"]))
    page.get_by_test_id("in-bucket").click()
    shown = page.get_by_test_id(f"bucket:{position}")
    expect(shown.get_by_role("listitem")).to_have_count(len(bucket["edges"]))
    shown.get_by_role("button", name="input_layernorm.weight").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(replicas.inspected).to_have_text("input_layernorm")

    page.get_by_role("button", name="Show the plan as a whole").click()
    for state in (fused, before):
        replicas.undo()
        assert decided(replicas.state()) == decided(state)
    expect(chosen(replicas, "fusion")).to_have_attribute("value", "none")


def test_optimizer_state_on_the_host_and_layers_computed_again_take_less_memory(replicas: Designer) -> None:
    page, before = replicas.page, replicas.state()["summary"]
    choose(replicas, "place:optimizer", "Host")
    moved = replicas.state()["summary"]
    assert moved["memory_bytes"] < before["memory_bytes"]
    choose(replicas, "recompute-all", "Layers")
    again = replicas.state()["summary"]
    assert again["memory_bytes"] < moved["memory_bytes"]
    assert again["step_time_s"] > moved["step_time_s"]

    # One module is taken out again, and it is seen that the others are not.
    replicas.pick("gate_proj")
    expect(chosen(replicas, "recompute")).to_have_attribute("value", "again")
    page.get_by_role("treeitem").filter(has_text="mlp").first.click()
    expect(replicas.inspected).to_have_text("mlp")
    choose(replicas, "recompute", "Kept")
    assert again["memory_bytes"] < replicas.state()["summary"]["memory_bytes"]
    # One parameter of one layer comes back to the device.
    replicas.pick("gate_proj")
    page.get_by_role("radiogroup", name="Apply to").get_by_text("One layer").click()
    choose(replicas, "place:optimizer:weight", "Device")
    expect(chosen(replicas, "place:optimizer:weight")).to_have_attribute("value", "device")

    page.reload()
    replicas.ready()
    # Some are here and some there: neither is marked.
    expect(page.get_by_role("region", name="Memory")).to_contain_text("Decided by module")
    expect(chosen(replicas, "place:optimizer")).to_have_count(0)
    expect(chosen(replicas, "place:storage")).to_have_attribute("value", "device")
    choose(replicas, "place:optimizer", "Device")
    choose(replicas, "recompute-all", "None")
    assert replicas.state()["summary"]["memory_bytes"] == before["memory_bytes"]


def test_what_is_refused_says_why_and_changes_nothing(replicas: Designer, faults: Faults) -> None:
    faults.allow("status of 422")
    page, before = replicas.page, replicas.state()
    # Gradients of bf16 have two bytes already.
    page.get_by_role("combobox", name="Compression of gradients").click()
    page.get_by_role("option", name="bf16").click()
    section = page.get_by_role("region", name="Gradients")
    expect(section.get_by_role("alert")).to_contain_text("bf16 would make them no smaller")
    expect(page.get_by_role("combobox", name="Compression of gradients")).to_have_value("none")
    choose(replicas, "fusion", "Index")
    expect(section.get_by_role("alert")).to_have_count(0)
    field = section.get_by_role("textbox", name="Buckets begin at")
    field.fill("1, 9999")
    field.press("Enter")
    expect(section.get_by_role("alert")).to_contain_text("A bucket is to begin at parameter 9999")
    expect(field).to_have_value("1, 9999")
    field.fill("no")
    expect(section).to_contain_text("“no” is no position from 1 on.")
    # The list of all layers is no piece to compute again.
    page.get_by_role("treeitem").filter(has_text="model").first.click()
    page.get_by_test_id("recompute").get_by_text("Computed again", exact=True).click()
    alert = page.get_by_role("region", name="Backward").get_by_role("alert")
    expect(alert).to_contain_text("holds all the layers of model.layers")
    expect(chosen(replicas, "recompute")).to_have_attribute("value", "kept")
    replicas.undo()
    assert decided(replicas.state()) == decided(before)
