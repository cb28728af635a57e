"""Covers: routes.results, routes.redistribute, archive."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

import planner
from backend.archive import zip_of
from planner import Plan, compose
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.figures import FIGURES

from .conftest import Caller


@pytest.fixture
def plan() -> Plan:
    """The same plan as `state`, without a server."""
    graph = planner.load_model("llama-tiny")
    plan = Plan.new(graph, cluster="1x8-h100-sxm", mesh={"dp": 2, "tp": 4}, global_batch=8, seq=256)
    return plan.preset("data_parallel", axis="dp").preset("megatron", axis="tp")


def test_report_opens_every_number(client: Caller, state: dict[str, Any]) -> None:
    report = client.ok(client.get(f"/api/v1/plans/{state['id']}/report"))
    assert report["step_time"]["value"] == state["summary"]["step_time_s"]
    children = report["step_time"]["children"]
    assert sum(child["value"] for child in children) == pytest.approx(report["step_time"]["value"])
    assert children[0]["children"][0]["children"][0]["formula"]
    assert set(children[0]) == {"name", "value", "unit", "formula", "children"}


def test_choices_at_every_node(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    for node in state["view"]["nodes"]:
        found = client.ok(client.get(f"/api/v1/plans/{state['id']}/choices", params={"node": node["id"]}))
        expected = compose.choices_at(plan, node["id"])
        assert [(c["factor"], c["axis"], c["on"], c["legal"], c["reason"], c["remedy"]) for c in found] == [
            (c.factor, c.axis, c.on, c.legal, c.reason, c.remedy) for c in expected
        ]
        assert all(c["legal"] or (c["reason"] and c["remedy"]) for c in found)


def test_a_choice_can_be_sent_as_it_is(client: Caller, state: dict[str, Any]) -> None:
    """What a click sets, sent as changes, is accepted if and only if the choice is legal."""
    (node,) = [node for node in state["view"]["nodes"] if node["name"].endswith("self_attn.q_proj")]
    for choice in client.ok(client.get(f"/api/v1/plans/{state['id']}/choices", params={"node": node["id"]})):
        changes = [
            {"type": "factor", "target": node["target"], "factor": factor, "axes": axes}
            for factor, axes in choice["sets"]
        ]
        answer = client.post(f"/api/v1/plans/{state['id']}/what-if", json={"changes": changes})
        assert (answer.status_code == 200) == choice["legal"], (choice, answer.text)


def test_no_such_node(client: Caller, state: dict[str, Any]) -> None:
    path = f"/api/v1/plans/{state['id']}/choices"
    client.problem(client.get(path, params={"node": "x:y"}), 404, "plan.node-unknown")
    client.problem(client.get(path), 422, "http.invalid")


def test_figures(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    report = planner.evaluate(plan)
    for name, definition in FIGURES.items():
        assert client.ok(client.get(f"/api/v1/plans/{state['id']}/figures/{name}")) == definition.draw(report)
    client.problem(client.get(f"/api/v1/plans/{state['id']}/figures/pie"), 404, "http.not-found")


def test_code_is_the_bundle(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    found = client.ok(client.get(f"/api/v1/plans/{state['id']}/code"))
    assert {file["path"]: file["text"] for file in found["files"]} == compose.bundle(plan)


def test_the_archive_is_what_export_writes_byte_for_byte(
    client: Caller, state: dict[str, Any], plan: Plan, tmp_path: Path
) -> None:
    planner.export(plan, tmp_path / "bundle")
    answer = client.get(f"/api/v1/plans/{state['id']}/export.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert client.get(f"/api/v1/plans/{state['id']}/export.zip").content == answer.content
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = sorted(str(p.relative_to(tmp_path / "bundle")) for p in (tmp_path / "bundle").rglob("*") if p.is_file())
        assert sorted(archive.namelist()) == names
        for entry in archive.infolist():
            written = tmp_path / "bundle" / entry.filename
            assert archive.read(entry) == written.read_bytes()
            runs = bool(entry.external_attr >> 16 & stat.S_IXUSR)
            assert runs == bool(written.stat().st_mode & stat.S_IXUSR)


def test_an_archive_depends_on_its_files_only() -> None:
    one, two = {"a.py": "x\n", "b.sh": "y\n"}, {"b.sh": "y\n", "a.py": "x\n"}
    assert zip_of(one) == zip_of(two)


def test_redistribute(client: Caller) -> None:
    mesh = [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}]
    body = {"source": "[dp, tp] ", "target": "[dp, -]", "mesh": mesh, "shape": [64, 32], "dtype": "float32"}
    found = client.ok(client.post("/api/v1/redistribute", json=body))
    planned = planner.redistribute(
        Layout.parse("[dp, tp]"), Layout.parse("[dp, -]"), DeviceMesh.of({"dp": 2, "tp": 4}), shape=(64, 32),
        dtype="float32",
    )  # fmt: skip
    assert [step["kind"] for step in found["steps"]] == [step.kind for step in planned.steps] == ["all_gather"]
    # Each rank receives three quarters of 32 rows × 32 columns × 4 bytes.
    assert found["received_bytes"] == found["bound_bytes"] == 32 * 24 * 4
    assert found["peak_bytes"] == 32 * (8 + 32) * 4
    assert found["seconds"] == sum(step["seconds"] for step in found["steps"]) > 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"source": "tp"}, "layout.syntax"),
        ({"source": "[tp, tp]"}, "layout.axis-reused"),
        ({"dtype": "float7"}, "tensor.dtype-unknown"),
        ({"shape": [64]}, "layout.rank-mismatch"),
        ({"shape": [7, 7]}, "layout.uneven-unsupported"),
        ({"shape": [0, 7]}, "http.invalid"),
        ({"target": "[xx, -]"}, "mesh.axis-unknown"),
        ({"target": "[-, -] +tp·zz"}, "mesh.axis-unknown"),
        ({"cluster": "4x8"}, "hardware.cluster-syntax"),
    ],
)
def test_redistribute_says_why_not(client: Caller, changes: dict[str, Any], code: str) -> None:
    body = {"source": "[tp, -]", "target": "[-, tp]", "mesh": [{"name": "tp", "size": 8}], "shape": [64, 64]}
    client.problem(client.post("/api/v1/redistribute", json=body | changes), 422, code)
