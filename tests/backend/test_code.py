"""Covers: routes.code, exported, differences, the labels of the store."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.desk import Desk
from backend.differences import AROUND, differences, hunks
from planner import Plan, compose, delivery, load_model
from planner.exporters import EXPORTERS

from .conftest import Caller

WHOLE = {"type": "factor", "target": "layers.*.mlp.up_proj", "factor": "n", "axes": []}


@pytest.fixture
def plan() -> Plan:
    """The same plan as `state`, without a server."""
    plan = Plan.new(load_model("llama-tiny"), cluster="1x8-h100-sxm", mesh={"dp": 2, "tp": 4}, global_batch=8, seq=256)
    return plan.preset("data_parallel", axis="dp").preset("megatron", axis="tp")


def files_of(answer: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["text"] for file in answer["files"]}


def without_check(files: dict[str, str]) -> dict[str, str]:
    """Leave out what checks the bundle, which no edit is about."""
    return {path: text for path, text in files.items() if not path.startswith(("check/", "selfcheck.py"))}


def test_code_is_the_bundle_with_marks(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    found = client.ok(client.get(f"/api/v1/plans/{state['id']}/code"))
    assert files_of(found) == delivery.bundle(plan)
    assert found["form"] == "explicit"
    assert [(m["path"], m["first"], m["last"], m["nodes"], m["edges"]) for m in found["marks"]] == [
        (m.path, m.first, m.last, list(m.nodes), list(m.edges)) for m in compose.code_marks(plan)
    ]
    edges = {edge["id"] for edge in state["view"]["edges"]}
    assert any(m["edges"] for m in found["marks"])
    assert all(set(m["edges"]) <= edges for m in found["marks"])


def test_code_is_written_once_for_a_version(
    client: Caller, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    bundle = compose.bundle
    monkeypatch.setattr(compose, "bundle", lambda plan, form, training: (written.append(form), bundle(plan, form))[1])
    for path in ("code", "export.zip", "forms", "code"):
        assert client.get(f"/api/v1/plans/{state['id']}/{path}").status_code == 200
    assert sorted(written) == sorted(EXPORTERS)
    client.ok(client.edit(state, WHOLE))
    client.ok(client.get(f"/api/v1/plans/{state['id']}/code"))
    assert len(written) == len(EXPORTERS) + 1


def test_forms_say_why_not(client: Caller, state: dict[str, Any]) -> None:
    path = f"/api/v1/plans/{state['id']}/forms"
    found = {form["name"]: form for form in client.ok(client.get(path))}
    assert found.keys() == EXPORTERS.keys()
    assert found["explicit"]["problem"] is None
    assert found["explicit"]["summary"] == EXPORTERS["explicit"].summary
    client.problem(client.get(f"/api/v1/plans/{state['id']}/code", params={"form": "x"}), 422, "export.form-unknown")
    client.problem(
        client.get(f"/api/v1/plans/{state['id']}/export.zip", params={"form": "x"}), 422, "export.form-unknown"
    )


def test_what_comes_from_onnx_says_so_before_it_is_downloaded(
    client: Caller, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk: Desk = client.app.state.desk  # type: ignore[attr-defined]
    found = desk.evaluated(desk.plan(state["id"]))
    graph = found.plan.graph
    onnx = replace(found, plan=replace(found.plan, graph=replace(graph, source=replace(graph.source, kind="onnx"))))
    monkeypatch.setattr(desk, "evaluated", lambda stored: onnx)
    for form in client.ok(client.get(f"/api/v1/plans/{state['id']}/forms")):
        assert form["problem"]["code"] == "export.onnx-source"
        assert form["problem"]["hint"]


def test_history_and_what_the_last_edits_changed(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    path = f"/api/v1/plans/{state['id']}"
    assert client.ok(client.get(f"{path}/history")) == []
    client.problem(client.get(f"{path}/code/diff"), 422, "plan.nothing-to-undo")
    first = client.ok(client.edit(state, WHOLE, label="one"))
    second = client.ok(client.edit(first, {"type": "batch", "global_batch": 16, "seq": 256, "microbatches": 2}))
    steps = client.ok(client.get(f"{path}/history"))
    assert steps == [{"back": 1, "label": "batch 16 × 256 in 2"}, {"back": 2, "label": "one"}]

    plans = [plan, plan.shard(WHOLE["target"], {"n": ()})]
    plans.append(plans[1].batch(global_batch=16, seq=256, microbatches=2))
    for back, before in ((1, plans[1]), (2, plans[0])):
        found = client.ok(client.get(f"{path}/code/diff", params={"back": back}))
        assert found["labels"] == [step["label"] for step in steps[:back]]
        expected = differences(*(without_check(delivery.bundle(each)) for each in (before, plans[2])))
        assert found["files"] == [file.model_dump(mode="json") for file in expected]
    assert {"model.py", "plan.json", "train.py"} <= {file.path for file in expected}
    # After an undo, the last edit is the first one.
    client.step(second, "undo")
    assert [step["label"] for step in client.ok(client.get(f"{path}/history"))] == ["one"]


def test_the_archive_is_the_form(client: Caller, state: dict[str, Any], plan: Plan) -> None:
    content = client.get(f"/api/v1/plans/{state['id']}/export.zip", params={"form": "explicit"}).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == delivery.bundle(plan)


LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=30)


@given(LINES, LINES)
def test_ranges_rebuild_both_texts(before: list[str], after: list[str]) -> None:
    """Equal lines are equal, and what lies between hunks is the same in both."""
    found = hunks("".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after))
    at = (0, 0)
    for hunk in found:
        (i, _), (k, _) = hunk[0].before, hunk[0].after
        assert before[at[0] : i] == after[at[1] : k]
        for part in hunk:
            (i, j), (k, n) = part.before, part.after
            assert (part.change == "equal") == (before[i:j] == after[k:n])
            if part.change == "equal":
                assert j - i <= 2 * AROUND
            at = (j, n)
    assert before[at[0] :] == after[at[1] :]
    assert bool(found) == (before != after)


def test_a_file_that_comes_or_goes() -> None:
    (gone, new) = differences({"a": "x\n", "c": "same\n"}, {"b": "y\nz\n", "c": "same\n"})
    assert (gone.path, gone.before, gone.after) == ("a", "x\n", None)
    assert [(part.change, part.before, part.after) for part in gone.hunks[0]] == [("delete", (0, 1), (0, 0))]
    assert (new.path, new.before, new.after) == ("b", None, "y\nz\n")
    assert [(part.change, part.before, part.after) for part in new.hunks[0]] == [("insert", (0, 0), (0, 2))]
