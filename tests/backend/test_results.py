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
from planner.redistribution import OBJECTIVES, SearchOptions
from planner.simulate import slices

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


def test_slices_of_every_tensor(client: Caller, state: dict[str, Any]) -> None:
    mesh = DeviceMesh.of({"dp": 2, "tp": 4})
    asked = [(node["id"], tensor["slot"], tensor) for node in state["view"]["nodes"]
             for tensor in (*node["operands"], *node["results"])]  # fmt: skip
    asked += [(edge["id"], "", edge["tensor"]) for edge in state["view"]["edges"]]
    # A node may read one value twice, under names of their own; slots of a node do not repeat.
    assert len({(node, slot) for node, slot, _ in asked}) == len(asked)
    for node, slot, tensor in asked[:: max(1, len(asked) // 40)]:
        parameters = {"node": node, "slot": slot}
        found = client.ok(client.get(f"/api/v1/plans/{state['id']}/slices", params=parameters))
        shape = tuple(cell["total"] for cell in tensor["cells"])
        expected = slices(Layout.parse(tensor["layout"]), shape, mesh)
        assert (found["layout"], tuple(found["shape"]), found["ranks"]) == (tensor["layout"], shape, 8)
        assert [tuple(map(tuple, part)) for part in found["slices"]] == list(expected)
        assert found["note"] == ""


def test_slices_of_what_is_not_there(client: Caller, state: dict[str, Any]) -> None:
    path = f"/api/v1/plans/{state['id']}/slices"
    client.problem(client.get(path, params={"node": "nothing"}), 404, "plan.node-unknown")
    found = client.problem(client.get(path, params={"node": ":lm_head", "slot": "y"}), 404, "plan.slot-unknown")
    assert found["hint"].startswith("Use one of: x, weight, ")
    client.problem(client.get(path), 422, "http.invalid")


def test_redistribute_shows_the_slices(client: Caller) -> None:
    mesh = [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}]
    body = {"source": "Shard(0), Partial()", "target": "P('tp', 'dp')", "mesh": mesh, "shape": [8, 8]}
    found = client.ok(client.post("/api/v1/redistribute", json=body))
    assert [held["layout"] for held in found["slices"]] == ["[dp, -] +tp", *(step["target"] for step in found["steps"])]
    assert found["slices"][-1]["slices"][5] == [[2, 4], [4, 8]]
    body |= {"source": "[4, 2] | [1, -1]", "target": "[-, -]"}
    assert client.ok(client.post("/api/v1/redistribute", json=body))["mesh"] == [["dp", 2], ["tp0", 2], ["tp1", 2]]


def test_slices_of_many_ranks_are_a_sample(client: Caller) -> None:
    body = {"source": "[a]", "target": "[-]", "mesh": [{"name": "a", "size": 4096}], "shape": [4096]}
    first = client.ok(client.post("/api/v1/redistribute", json=body))["slices"][0]
    assert (len(first["slices"]), first["ranks"], first["note"]) == (64, 4096, "the first 64 of 4,096 ranks")


def test_a_text_that_can_not_be_read_has_a_place(client: Caller) -> None:
    body = {"source": "[a, b", "target": "[-]", "mesh": [{"name": "a", "size": 2}], "shape": [4]}
    found = client.problem(client.post("/api/v1/redistribute", json=body), 422, "layout.syntax")
    assert found["place"] == {"text": "[a, b", "start": 5, "stop": 6}
    found = client.problem(client.post("/api/v1/redistribute", json=body | {"dtype": "x", "source": "[-]"}), 422,
                           "tensor.dtype-unknown")  # fmt: skip
    assert found["place"] is None


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
        ({"source": "P(" * 200}, "surface.spec-syntax"),
        ({"source": "[4] | [0, -1]"}, "mesh.matrix-ranks"),
        ({"source": "[2, 2, 2, 1, 1, 1, 1, 1] | [9, -1]"}, "mindspore.map-range"),
        ({"dtype": "float7"}, "tensor.dtype-unknown"),
        ({"shape": [64]}, "layout.rank-mismatch"),
        ({"shape": [0, 7]}, "http.invalid"),
        ({"target": "[xx, -]"}, "mesh.axis-unknown"),
        ({"target": "[-, -] +tp·zz"}, "mesh.axis-unknown"),
        ({"cluster": "4x8"}, "hardware.cluster-syntax"),
    ],
)
def test_redistribute_says_why_not(client: Caller, changes: dict[str, Any], code: str) -> None:
    body = {"source": "[tp, -]", "target": "[-, tp]", "mesh": [{"name": "tp", "size": 8}], "shape": [64, 64]}
    client.problem(client.post("/api/v1/redistribute", json=body | changes), 422, code)


def test_mesh_and_shape_may_be_texts(client: Caller) -> None:
    listed = {"source": "[tp, -]", "target": "[-, tp]", "mesh": [{"name": "tp", "size": 8}], "shape": [64, 32]}
    typed = listed | {"mesh": "tp=8", "shape": "64 × 32"}
    found = client.ok(client.post("/api/v1/redistribute", json=typed))
    assert found == client.ok(client.post("/api/v1/redistribute", json=listed))
    assert (found["cluster"], found["dtype"], found["shape"]) == ("1x8-h100-sxm", "bfloat16", [64, 32])
    for wrong, code, place in (
        ({"mesh": "tp:8,"}, "mesh.syntax", ("tp:8,", 5, 6)),
        ({"shape": "64x0"}, "surface.shape-syntax", ("64x0", 3, 4)),
    ):
        problem = client.problem(client.post("/api/v1/redistribute", json=typed | wrong), 422, code)
        assert problem["place"] == dict(zip(("text", "start", "stop"), place, strict=True))
    for wrong in ({"mesh": "tp:999999999"}, {"mesh": ",".join(f"a{i}:1" for i in range(9)) + ",tp:8"}):
        client.problem(client.post("/api/v1/redistribute", json=typed | wrong), 422, "http.mesh-too-large")
    for wrong in ({"shape": "999999999999999x1"}, {"shape": "x".join("2" * 9)}):
        client.problem(client.post("/api/v1/redistribute", json=typed | wrong), 422, "http.shape-too-large")
    for wrong in ({"mesh": 8}, {"shape": None}, {"mesh": "t" * 501}):
        client.problem(client.post("/api/v1/redistribute", json=typed | wrong), 422, "http.invalid")
    client.problem(
        client.post("/api/v1/redistribute", json=typed | {"cluster": "8x8-h100-sxm"}), 422, "mesh.device-count"
    )


def test_redistribute_shows_what_arrives(client: Caller) -> None:
    body = {"source": "[dp, -] +tp", "target": "[-, tp]", "mesh": "dp:2,tp:2", "shape": "4x4"}
    found = client.ok(client.post("/api/v1/redistribute", json=body))
    assert [(held["partial"], held["reduce"]) for held in found["slices"]] == [
        (["tp"], "sum"),
        ([], "sum"),
        ([], "sum"),
    ]
    scattered, gathered = found["steps"]
    assert scattered["arrives"] == [[held] for held in found["slices"][1]["slices"]]
    assert gathered["arrives"][:2] == [[[[2, 4], [0, 2]]], [[[2, 4], [2, 4]]]]
    assert all(step["why"] for step in found["steps"])


def test_a_badge_opens_its_redistribution(client: Caller, state: dict[str, Any]) -> None:
    path = f"/api/v1/plans/{state['id']}/redistribution"
    stored = {"type": "parameter", "target": "*", "axes": ["dp"], "layout": None, "regather": True}
    state = client.ok(client.edit(state, stored))
    kinds = {"sum": 0, "whole": 0}
    for edge in state["view"]["edges"]:
        for position, badge in enumerate(edge["badges"]):
            found = client.ok(client.get(path, params={"edge": edge["id"], "badge": position}))
            same = [
                step
                for step in found["steps"]
                if (step["kind"], step["axes"], step["source"], step["target"])
                == (badge["kind"], badge["axes"], badge["source"], badge["target"])
            ]
            assert [(step["received_bytes"], step["seconds"]) for step in same] == [
                (badge["wire_bytes"], badge["seconds"])
            ]
            assert found["shape"] == [cell["total"] for cell in edge["tensor"]["cells"]]
            if badge["phase"] == "forward":
                assert found["source"] == edge["tensor"]["layout"]
            else:
                assert found["target"] == edge["gradient"] or badge["source"] == edge["tensor"]["layout"]
            kinds["sum" if found["slices"][0]["partial"] else "whole"] += 1
    assert all(kinds.values()), kinds


def test_a_badge_that_is_not_there(client: Caller, state: dict[str, Any]) -> None:
    path = f"/api/v1/plans/{state['id']}/redistribution"
    client.problem(client.get(path, params={"edge": "nothing"}), 404, "plan.node-unknown")
    edge = next(edge for edge in state["view"]["edges"] if not edge["badges"])
    client.problem(client.get(path, params={"edge": edge["id"]}), 404, "plan.badge-unknown")
    client.problem(client.get(path, params={"edge": edge["id"], "badge": -1}), 422, "http.invalid")


def test_redistribute_by_another_objective(client: Caller) -> None:
    body = {"source": "[dp, tp]", "target": "[tp, dp]", "mesh": "dp:2,tp:4", "shape": "64x64"}
    direct = client.ok(client.post("/api/v1/redistribute", json=body))
    assert [step["kind"] for step in direct["steps"]] == ["exchange"]
    assert direct["gap"] == 0
    for objective in OBJECTIVES:
        options = SearchOptions(objective=objective, exchange=False)
        expected = planner.redistribute("[dp, tp]", "[tp, dp]", "dp:2,tp:4", shape=(64, 64), options=options)
        found = client.ok(client.post("/api/v1/redistribute", json=body | {"objective": objective, "exchange": False}))
        assert [(step["kind"], step["target"]) for step in found["steps"]] == [
            (step.kind, str(step.target)) for step in expected.steps
        ]
    client.problem(client.post("/api/v1/redistribute", json=body | {"objective": "beauty"}), 422, "http.invalid")


def test_reasons_name_every_dim(client: Caller) -> None:
    body = {"source": "[dp, tp]", "target": "[-, -]", "mesh": "dp:2,tp:4", "shape": "64x64", "objective": "steps"}
    (step,) = client.ok(client.post("/api/v1/redistribute", json=body | {"exchange": False}))["steps"]
    assert (step["kind"], step["dim"]) == ("all_gather", -1)
    whole = "dim 0 is to be whole along dp, dim 1 is to be whole along tp"
    assert step["why"] == f"{whole}: each rank gets the parts that the others hold"


def test_mindspores_planner_has_no_objective(client: Caller) -> None:
    body = {"source": "[tp]", "target": "[-]", "mesh": "tp:8", "shape": "64", "planner": "mindspore"}
    body |= {"objective": "bytes"}
    client.problem(client.post("/api/v1/redistribute", json=body), 422, "http.options-crossed")


def test_the_front_is_what_no_way_beats(client: Caller) -> None:
    body = {"source": "[dp, tp]", "target": "[-, -]", "mesh": "dp:2,tp:4", "shape": "64x64"}
    assert client.ok(client.post("/api/v1/redistribute", json=body))["front"] == []
    found = client.ok(client.post("/api/v1/redistribute", json=body | {"front": True}))
    ways = [(way["seconds"], way["received_bytes"], way["peak_bytes"], len(way["steps"])) for way in found["front"]]
    assert ways == sorted(ways)
    assert ways[0][0] == found["seconds"]
    for way in ways:
        assert not any(all(a <= b for a, b in zip(other, way, strict=True)) for other in ways if other != way)
    assert found["staging_bytes"] >= 0
    assert found["bound_of_sums"] is False
    body |= {"front": True, "to_shape": "4096", "target": "[-]"}
    client.problem(client.post("/api/v1/redistribute", json=body), 422, "http.options-crossed")
