"""`shardwright trace`: modules of users, and what is wrong with how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import load_model

from .command import answer, shardwright

pytest.importorskip("torch")

CODE = """
import torch

class Tower(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(96, 16)
        self.head = torch.nn.Linear(16, 96)

    def forward(self, tokens):
        return self.head(torch.tanh(self.table(tokens)))

number = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "towers.py"
    path.write_text(CODE)
    return str(path)


def test_a_module_is_traced_written_and_planned(file: str, tmp_path: Path) -> None:
    out = str(tmp_path / "graph.json")
    found = answer("trace", f"{file}:Tower", "--input", "tokens=int64[B=8,S=32]", "--out", out)
    assert found["inputs"] == {"tokens": "int64[B, S]", "labels": "int64[B, S]"}
    assert (found["model"]["name"], found["model"]["parameters"]) == ("Tower", 96 * 16 + 16 * 96 + 96)
    assert (found["unknown"], found["fixed"]) == ([], [])
    assert load_model(out).parameter_count == found["model"]["parameters"]
    assert shardwright("evaluate", out, "--mesh", "dp:2", "--preset", "data_parallel:dp", "--seq", "32").code == 0
    text = shardwright("trace", f"{file}:Tower", "--input", "int64[8,32]").out
    assert "3.17 K parameters (3,168), 4 nodes" in text
    assert "tokens int64[B, 32]" in text


def test_a_model_that_says_itself_what_it_is(file: str) -> None:
    assert answer("trace", "llama-tiny")["model"]["name"] == "llama-tiny"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("FILE:Tower",), "cli.trace-inputs"),
        (("FILE:Tower", "--input", "x=int64[8]", "--input", "int64[8]"), "cli.trace-inputs"),
        (("FILE:Tower", "--input", "int64[8"), "model.input-syntax"),
        (("FILE:Other", "--input", "int64[8]"), "model.module-missing"),
        (("FILE:number", "--input", "int64[8]"), "model.module-failed"),
        (("no_such_package:Tower", "--input", "int64[8]"), "model.module-failed"),
        (("llama-tiny", "--input", "int64[8]"), "cli.trace-inputs"),
        (("FILE:Tower", "--input", "float32[8]"), "model.trace-failed"),
    ],
)
def test_refusals(file: str, arguments: tuple[str, ...], code: str) -> None:
    ran = shardwright("trace", *(argument.replace("FILE", file) for argument in arguments), "--json")
    assert (ran.code, ran.json["code"]) == (2, code)
    assert ran.json["hint"]
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
