"""Covers: backend.openapi. The description is the one in git, and whatever it allows is answered without a fault."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from backend.app import create_app
from backend.openapi import text

from .conftest import LOCAL, NEW_PLAN, Caller

ROOT = Path(__file__).parents[2]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
# A sixth of what a property is tried on: some 230 cases over all operations, and more than 4,000 in `make test-full`.
EXAMPLES = settings(max_examples=max(8, settings().max_examples // 6), suppress_health_check=list(HealthCheck))
THE_PLAN = "the-plan"


def test_description_is_the_one_in_git(app: FastAPI) -> None:
    committed = (ROOT / "frontend" / "openapi.json").read_text("utf-8")
    assert text(app) == committed, "run `make gen`"


def test_answers_are_complete_and_errors_are_problems(app: FastAPI) -> None:
    found = app.openapi()
    assert found["components"]["schemas"]["GroupView"]["required"][-1] == "total"
    edit = found["paths"]["/api/v1/plans/{plan_id}"]["patch"]
    assert list(edit["responses"]["422"]["content"]) == ["application/problem+json"]
    (header,) = [parameter for parameter in edit["parameters"] if parameter["name"] == "If-Match"]
    assert header["required"]


class World:
    """A server that all cases are sent to; proofs are queued there and never run."""

    def __init__(self) -> None:
        self.app = create_app()
        self.client = Caller(self.app, base_url=LOCAL)
        self.desk = self.app.state.desk
        self.desk.jobs._run = self.desk.imports._run = lambda: None
        # schemathesis ends the application after every request.
        self.desk.close = lambda: None
        self.schema = schemathesis.openapi.from_dict(self.app.openapi())
        self.schema.app = self.app
        self.state = self.client.new()

    def fill(self, case: schemathesis.Case) -> None:
        """Put a plan that exists, at its version, where a case asks for it."""
        if (case.path_parameters or {}).get("plan_id") != THE_PLAN:
            return
        if self.desk.plans.get(self.state["id"]) is None:
            self.state = self.client.new()
        case.path_parameters["plan_id"] = self.state["id"]
        if case.headers and "If-Match" in case.headers:
            case.headers["If-Match"] = f'"{self.desk.plans.get(self.state["id"]).version}"'


@cache
def validator(name: str, status: int, kind: str) -> Any:
    """Return what checks an answer; schemathesis's own check stumbles over pairs (`prefixItems`)."""
    method, path = name.split(" ")
    spec = WORLD.app.openapi()
    responses = spec["paths"][path][method.lower()]["responses"]
    schema = responses.get(str(status), responses.get("default"))["content"][kind].get("schema", {})
    return jsonschema_rs.Draft202012Validator({**schema, "components": spec["components"]})


WORLD = World()
OPERATIONS = {found.ok().label: found.ok() for found in WORLD.schema.get_all_operations()}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_makes_a_fault(name: str) -> None:
    operation = OPERATIONS[name]
    kinds = [operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    if "{plan_id}" in name:
        own: dict[str, Any] = {"path_parameters": {"plan_id": THE_PLAN}}
        if "figure" in name:
            own["path_parameters"]["figure"] = "step"
        if any(parameter.name == "If-Match" for parameter in operation.headers):
            own["headers"] = {"If-Match": '"1"'}
        kinds += [operation.as_strategy(GenerationMode.POSITIVE, **own)] * 2

    @EXAMPLES
    @given(case=st.one_of(kinds))
    def check(case: schemathesis.Case) -> None:
        WORLD.fill(case)
        answer = case.call(base_url=LOCAL, headers={"Host": "localhost"})
        case.validate_response(answer, checks=CHECKS)
        (kind,) = answer.headers.get("content-type", [""])
        if answer.status_code >= 400:
            assert kind == "application/problem+json"
        if kind.endswith("json"):
            validator(name, answer.status_code, kind).validate(answer.json())

    check()


NAMES = st.sampled_from(["dp", "tp", "tp0", "tp1", "xx", ""])
AXES = st.lists(NAMES, max_size=3)
TARGETS = st.sampled_from(
    ["*", "q_proj", "self_attn.k_proj|v_proj", "layers.0.mlp.gate_proj", "layers.0-1", "layers.*", "embed_tokens",
     "lm_head", "loss", "model.norm", "residual_mlp", "self_attn", "rotary_emb", "attention", "layers.9-1", "a..b"]
)  # fmt: skip
FACTORS = st.sampled_from(["batch", "seq", "n", "k", "g", "r", "d", "h", "vocab", "zz"])
SMALL = st.integers(1, 16)
CHANGES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("factor"), "target": TARGETS, "factor": FACTORS, "axes": st.none() | AXES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("keep"), "target": TARGETS, "axis": NAMES, "carriers": st.lists(st.integers(0, 3), max_size=3)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("parameter"), "target": TARGETS, "axes": AXES, "regather": st.booleans(),
            "deferred": st.booleans(), "of": st.sampled_from(["storage", "gradient", "optimizer"]),
            "layout": st.none() | st.sampled_from(["[dp, -]", "[-, tp]", "[tp]", "[dp·tp, -]", "[-, -] +tp", "[xx]"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("preset"), "axes": st.fixed_dictionaries({"axis": AXES}),
            "name": st.sampled_from(
                ["data_parallel", "expert_parallel", "megatron", "sequence_parallel", "zero1", "zero2", "zero3"]
            ),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("split_axis"), "axis": NAMES, "sizes": st.lists(SMALL, min_size=2, max_size=3)}
    ),
    st.fixed_dictionaries({"type": st.just("batch"), "global_batch": SMALL, "seq": SMALL, "microbatches": SMALL}),
    st.fixed_dictionaries({"type": st.just("precision"), "name": st.sampled_from(["bf16", "fp32", "float64"])}),
    st.just({"type": "clear"}),
)  # fmt: skip


@settings(suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGES, min_size=1, max_size=4), mesh=st.sampled_from([(2, 4), (8, 1), (1, 8), (4, 2)]))
def test_edits_with_names_that_exist(changes: list[dict[str, Any]], mesh: tuple[int, int]) -> None:
    """Each is made or refused with a reason, and a plan that was accepted can be exported and opened again."""
    client = WORLD.client
    axes = [{"name": name, "size": size} for name, size in zip(("dp", "tp"), mesh, strict=True)]
    state = client.ok(client.post("/api/v1/plans", json=NEW_PLAN | {"mesh": axes}), 201)
    for change in changes:
        answer = client.edit(state, change)
        assert answer.status_code in {200, 422}, answer.text
        if answer.status_code == 422:
            assert answer.json()["detail"]
        else:
            state = answer.json()
    for part in ("report", "code", "file"):
        answer = client.get(f"/api/v1/plans/{state['id']}/{part}")
        # Some legal plans hold what this exporter can't write; it says so.
        assert answer.status_code == 200 or answer.json()["code"].startswith("export."), answer.text
    again = client.ok(client.post("/api/v1/plans/import", json={"text": answer.text}), 201)
    assert again["decisions"] == state["decisions"]
    client.delete(f"/api/v1/plans/{state['id']}")
    client.delete(f"/api/v1/plans/{again['id']}")
