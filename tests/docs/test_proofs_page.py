"""docs/reference/proofs.md and mutants.md are what their scripts write, and say what is promised of them."""

import re

import pytest

from benchmarks import mutants, prove_all
from benchmarks.prove_all import PAGE, page, rows_of
from tests.proof.catalog import ARCHITECTURES, DRAWN, presets

ROWS = rows_of(PAGE.read_text("utf-8"))
DEMANDED = {"llama", "qwen2", "gpt2", "bert", "t5", "vit", "resnet", "dlrm", "whisper"}


def test_the_page_is_what_its_script_writes() -> None:
    assert PAGE.read_text("utf-8") == page(ROWS), "make prove-all writes it anew"


def test_hundreds_of_plans_are_proven() -> None:
    assert sum(row.ok for row in ROWS) >= 200
    assert {row.architecture for row in ROWS if row.ok} >= DEMANDED
    assert [str(row) for row in ROWS if not row.ok] == []
    assert {row.ranks for row in ROWS} >= {2, 3, 4, 8}
    assert sum(row.collectives for row in ROWS) > 100_000


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt2"])
def test_they_are_those_of_the_catalog(name: str) -> None:
    """Of architectures that need no trace, here; all are drawn alike."""
    expected = [(title, str(plan.decisions.mesh)) for title, plan in presets(name)]
    told = [(row.plan, row.mesh) for row in ROWS if row.architecture == name]
    assert told[: len(expected)] == expected
    assert len(told) == len(expected) + DRAWN
    assert {row.architecture for row in ROWS} <= ARCHITECTURES.keys()


def test_a_wrong_row_is_seen() -> None:
    wrong = prove_all.Row.parse("| llama | x | dp:2 | 2 | 22 | inf | 46 | 0 | 1.0 | a1b2c3d |")
    unlike = prove_all.Row.parse("| llama | x | dp:2 | 2 | 22 | 1e-16 | 46 | 2 | 1.0 | a1b2c3d+ |")
    assert not wrong.ok
    assert not unlike.ok
    assert "2 of them wrong" in page([wrong, unlike])
    assert "2 unlike the plan" in page([wrong, unlike])


def test_every_change_of_a_bundle_is_found_or_explained() -> None:
    text = mutants.PAGE.read_text("utf-8")
    rows = re.findall(r"^\| (?:[\w ,]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert rows
    for total, *parts in rows:
        assert int(total) == sum(map(int, parts))
    assert "not explained" not in text
