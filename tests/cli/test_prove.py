"""`prove` on ranks, and its answer when a proof fails."""

import pytest

from planner.core.mesh import DeviceMesh
from planner.proof import Proof, ProofRow

from .command import shardwright

TWO = ("--mesh", "tp:2", "--preset", "megatron:tp", "--ranks", "2")


def test_a_proof_on_two_ranks():
    pytest.importorskip("torch")
    ran = shardwright("prove", "llama-tiny", *TWO, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json
    assert found["ok"]
    assert found["mesh"] == [{"axis": "tp", "size": 2}]
    assert found["rows"][0]["name"] == "loss"
    assert {"model.embed_tokens.weight", "lm_head.weight"} <= {row["name"] for row in found["rows"]}
    assert all(row["ok"] and row["error"] <= 1e-10 for row in found["rows"])
    assert found["collectives"] == found["failures"] == []


@pytest.mark.slow
def test_a_proof_of_the_native_form():
    pytest.importorskip("torch")
    ran = shardwright("prove", "llama-tiny", *TWO, "--form", "native", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["ok"]


FAILED = Proof(
    ok=False, mesh=DeviceMesh.of({"tp": 2}),
    rows=(
        ProofRow(name="loss", error=1e-16, rank=0, ok=True),
        ProofRow(name="lm_head.weight", error=float("nan"), rank=1, ok=False),
        ProofRow(
            name="model.norm.weight", error=0.5, rank=1, ok=False, node="lm_head", edge="model.norm",
            hint="Most likely the gradient of model.norm from lm_head: [-, -] +tp → [-, -] by all_reduce over tp.",
        ),
    ),
    failures=(), collectives=("rank 0: all_reduce over tp of 8 → 8 bytes ran 1 times, planned 2",),
    uncovered=("Mesh axes were made smaller: tp 8 → 2.",),
)  # fmt: skip


def test_a_failed_proof_says_what_and_exits_with_1(monkeypatch, golden):
    monkeypatch.setattr("planner.proof.prove", lambda *_, **__: FAILED)
    ran = shardwright("prove", "llama-tiny", *TWO)
    assert (ran.code, ran.err) == (1, "")
    golden("cli/prove-failed.txt", ran.out)
    told = shardwright("prove", "llama-tiny", *TWO, "--json")
    assert told.code == 1
    assert [row["error"] for row in told.json["rows"]] == [1e-16, None, 0.5]


def test_more_ranks_than_allowed():
    ran = shardwright("prove", "llama-tiny", "--mesh", "a:2,b:2", "--ranks", "2")
    assert ran.code == 2
    assert ran.err == (
        "error: The mesh a:2,b:2 needs at least 4 ranks to keep every axis; a proof runs at most 2. "
        "Allow more ranks with --ranks.\n"
    )
