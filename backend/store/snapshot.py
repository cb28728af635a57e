"""Decisions ↔ text of a history step: a plan file without its model, which is kept once."""

from __future__ import annotations

import json

from planner.core.graph import ModelSource
from planner.core.plan import Decisions
from planner.document import read, write


def dump(source: ModelSource, decisions: Decisions) -> str:
    """Return the text of a history step."""
    file = json.loads(write(source, decisions))
    del file["model"]
    return json.dumps(file, separators=(",", ":"), ensure_ascii=False)


def load(source: ModelSource, text: str) -> Decisions:
    """Return the decisions of a history step."""
    model = {
        "name": source.name, "kind": source.kind, "digest": source.digest, "content": json.loads(source.content),
    }  # fmt: skip
    return read(json.dumps({**json.loads(text), "model": model}, ensure_ascii=False))[1]
