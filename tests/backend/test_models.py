"""Covers: routes.models, routes.registry, store.models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from backend.app import create_app
from backend.settings import Settings
from planner.collectives import COLLECTIVES
from planner.hardware import HARDWARE
from planner.importers import zoo_names
from planner.ops import OPS
from planner.presets import PRESETS

from .conftest import LOCAL, Caller

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip


def test_registry_shows_the_tables(client: Caller) -> None:
    found = client.ok(client.get("/api/v1/registry"))
    for key, table in (("operators", OPS), ("collectives", COLLECTIVES), ("presets", PRESETS), ("devices", HARDWARE)):
        assert [entry["name"] for entry in found[key]] == list(table)
        assert all(entry["summary"] for entry in found[key])
    assert found["precisions"][0] == "bf16"
    assert found["exporters"][0]["name"] == "explicit"
    assert found["torch"] is True


def test_clusters(client: Caller) -> None:
    for found in client.ok(client.get("/api/v1/clusters")):
        assert client.ok(client.get(f"/api/v1/clusters/{found['name']}")) == found
    assert client.ok(client.get("/api/v1/clusters/3x8-h100-sxm"))["devices"] == 24
    client.problem(client.get("/api/v1/clusters/3x9-h100-sxm"), 422, "hardware.node-size")
    client.problem(client.get("/api/v1/clusters/many"), 422, "hardware.cluster-syntax")


def test_models_that_come_along(client: Caller) -> None:
    found = client.ok(client.get("/api/v1/models"))
    assert [model["id"] for model in found] == list(zoo_names())
    large = client.ok(client.get("/api/v1/models/llama-3.1-405b"))
    assert large == {
        "id": "llama-3.1-405b", "name": "llama-3.1-405b", "architecture": "LlamaForCausalLM", "layers": 126,
        "hidden": 16384, "parameters": planner.load_model("llama-3.1-405b").parameter_count,
        "longest_seq": 0, "builtin": True,
        "symbols": ["B", "S"], "fixed": [], "group": "dense", "start": large["start"],
    }  # fmt: skip
    assert large in found
    for model in found:
        assert client.ok(client.post("/api/v1/plans", json=model["start"]), 201)["model"]["id"] == model["id"]


def test_an_imported_model_is_kept_and_planned(on_disk: Settings) -> None:
    client = Caller(create_app(on_disk), base_url=LOCAL)
    made = client.ok(client.post("/api/v1/models", json={"name": "mine", "content": json.dumps(CONFIG)}), 201)
    assert made["id"].startswith("sha256-")
    assert (made["name"], made["layers"], made["hidden"], made["builtin"]) == ("mine", 3, 64, False)
    assert client.ok(client.get(f"/api/v1/models/{made['id']}")) == made
    assert client.new(model=made["id"])["model"] == {"id": made["id"], "name": "mine"}
    # Another server on the same database knows it too.
    other = Caller(create_app(on_disk), base_url=LOCAL)
    assert made in other.ok(other.get("/api/v1/models"))


def test_the_same_content_again_takes_the_newer_name(client: Caller) -> None:
    ids = {
        client.ok(client.post("/api/v1/models", json={"name": name, "content": json.dumps(CONFIG)}), 201)["id"]
        for name in ("one", "two")
    }
    assert len(ids) == 1
    assert [m["name"] for m in client.ok(client.get("/api/v1/models")) if not m["builtin"]] == ["two"]


def test_a_model_of_a_plan_file_is_not_listed(client: Caller) -> None:
    graph = planner.load_model(json.dumps(CONFIG))
    plan = planner.Plan.new(graph, cluster="1x8-h100-sxm", mesh={"tp": 8}, global_batch=8, seq=128)
    text = planner.compose.plan_text(plan)
    state = client.ok(client.post("/api/v1/plans/import", json={"text": text}), 201)
    client.problem(client.get(f"/api/v1/models/{state['model']['id']}"), 404, "model.unknown-name")
    assert all(model["builtin"] for model in client.ok(client.get("/api/v1/models")))


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        ("", 422, "model.json-syntax"),
        ("[]", 422, "model.config-type"),
        ('{"architectures": ["T5ForConditionalGeneration"]}', 422, "model.architecture-unsupported"),
        ("[" * 100_000, 422, "model.json-depth"),
        ('{"a": NaN}', 422, "model.json-number"),
        ('{"a": 1e999}', 422, "model.json-number"),
        ('{"a": ' + "9" * 100_000 + "}", 422, "model.json-number"),
        (json.dumps(CONFIG | {"num_hidden_layers": 10**9}), 422, "model.config-value"),
        (json.dumps(CONFIG | {"pad": "x" * (1 << 20)}), 413, "model.too-large"),
    ],
)
def test_what_is_no_config(client: Caller, content: str, status: int, code: str) -> None:
    client.problem(client.post("/api/v1/models", json={"name": "mine", "content": content}), status, code)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "config.json", "./llama-tiny", "llama-tiny.json", "..", "{}", "\0"]
)
def test_a_model_is_never_read_from_a_file(client: Caller, name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for given in (name, str(tmp_path)):
        answer = client.post(
            "/api/v1/plans",
            json={
                "model": given,
                "cluster": "1x8-h100-sxm",
                "mesh": [{"name": "tp", "size": 8}],
                "global_batch": 8,
                "seq": 8,
            },
        )
        client.problem(answer, 422, "model.unknown-name")
