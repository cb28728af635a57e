"""Must show 2: for each preset, the page, REST and the command line tell the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.cli.command import answer

from .designer import Designer, Rest
from .units import in_bytes, in_memory, in_seconds

DP, ZERO, TP, SP = ("data_parallel", "dp"), ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp")
TITLES = {
    "data_parallel": "Data parallel", "zero3": "ZeRO-3", "megatron": "Megatron tensor parallel",
    "sequence_parallel": "Sequence parallel",
}  # fmt: skip
PLANS = {
    "data_parallel": ("dp:8", (DP,)),
    "zero3": ("dp:8", (ZERO,)),
    "megatron": ("tp:8", (TP,)),
    "megatron+sequence": ("tp:8", (TP, SP)),
    "data×megatron+sequence": ("dp:2,tp:4", (DP, TP, SP)),
    "zero3×megatron+sequence": ("dp:2,tp:4", (ZERO, TP, SP)),
}


@pytest.mark.parametrize("name", PLANS)
def test_page_rest_and_command_line_agree(page: Page, rest: Rest, name: str) -> None:
    mesh, presets = PLANS[name]
    axes = [{"name": axis, "size": int(size)} for axis, size in (part.split(":") for part in mesh.split(","))]
    designer = Designer(page, rest, rest.new_plan(mesh=axes, presets=[])["id"]).open()
    for preset, axis in presets:
        page.get_by_role("button", name="Presets").click()
        with designer.edit():
            page.get_by_role("menuitem", name=f"{TITLES[preset]} over {axis}", exact=True).click()

    told = answer(
        "evaluate", "llama-3-8b", "--cluster", "1x8-h100-sxm", "--mesh", mesh, "--global-batch", "8", "--seq", "4096",
        *(word for preset, axis in presets for word in ("--preset", f"{preset}:{axis}")),
    )  # fmt: skip
    same_as_rest(told, designer)
    same_as_page(told, designer)


def same_as_rest(told: dict[str, Any], designer: Designer) -> None:
    """Check that REST's numbers are the command line's, to the last bit."""
    summary = designer.state()["summary"]
    report = designer.rest.ask("GET", f"/plans/{designer.plan_id}/report")
    assert summary["step_time_s"] == told["step_time"]["seconds"]
    assert summary["interval_s"] == told["step_time"]["interval"]
    assert summary["memory_bytes"] == told["memory"]["bytes"]
    assert {part["name"]: part["bytes"] for part in summary["memory_parts"]} == told["memory"]["parts"]
    for field in ("mfu", "tokens_per_second", "flops"):
        assert summary[field] == told[field]
    assert [row["seconds"] for row in report["collectives"]] == [row["seconds"] for row in told["collectives"]]
    assert report["step_time"] == told["costs"]["step_time"]
    assert report["memory"] == told["costs"]["memory"]


def same_as_page(told: dict[str, Any], designer: Designer) -> None:
    """Check that what a person reads in the page is what the command line answers."""
    expect(designer.step_time).to_have_text(in_seconds(told["step_time"]["seconds"]))
    expect(designer.memory).to_have_text(in_memory(told["memory"]["bytes"]))
    expect(designer.page.get_by_test_id("mfu")).to_have_text(f"{told['mfu']:.1%}")
    rows = designer.tab("communication").locator("tbody tr")
    expect(rows).to_have_count(len(told["collectives"]))
    shown = [tuple(row.locator("td").all_inner_texts()[3:7]) for row in rows.all()]
    assert sorted(shown) == sorted(
        (in_bytes(row["payload_bytes"]), in_seconds(row["seconds"]), f"{row['count']:,.0f}",
         in_seconds(row["seconds"] * row["count"]))
        for row in told["collectives"]
    )  # fmt: skip
