"""What a proof tells while it runs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from planner.proof import prove
from tests.tiny import tiny_plan

from .test_presets import assert_proven


def test_every_part_of_a_proof_is_told_in_order() -> None:
    told: list[tuple[float, str]] = []
    proof = prove(
        tiny_plan("tp:2").preset("megatron", axis="tp"), ranks=2, progress=lambda done, what: told.append((done, what))
    )
    assert_proven(proof)
    assert told == sorted(told)
    assert [what for _, what in told] == [
        "shrinking", "exporting", "starting ranks", "unsharded run", "sharded run", "comparing",
    ]  # fmt: skip
