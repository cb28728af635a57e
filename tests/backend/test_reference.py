"""docs/reference: the examples of rest.md run as they stand; errors-http.md knows every code, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from backend.problems import CODES

from .conftest import Caller

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(
    r"```http\n(?P<method>[A-Z]+) (?P<path>\S+)\n(?P<headers>(?:[\w-]+: .*\n)*)(?P<body>(?:.+\n)*)\n"
    r"(?P<status>\d{3})(?: (?P<rest>.*))?\n```"
)
CODE = re.compile(r'"((?:http|plan|job|pipeline)\.[a-z-]+)"')
# Made by the bounded reader of JSON from its prefix.
JSON_CODES = {f"http.json-{kind}" for kind in ("syntax", "number", "key", "character", "depth")}


def test_examples_run(client: Caller) -> None:
    text = (REFERENCE / "rest.md").read_text("utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```http")
    known: dict[str, str] = {}
    for block in blocks:
        path = block["path"]
        for name, value in known.items():
            path = path.replace(name, value)
        headers = dict(line.split(": ", 1) for line in block["headers"].splitlines())
        body = json.loads(block["body"]) if block["body"] else None
        answer = client.request(block["method"], path, json=body, headers=headers)
        assert answer.status_code == int(block["status"]), (block[0], answer.text)
        rest = block["rest"] or ""
        if rest.startswith("{"):
            known[rest] = answer.json()["id"]
        elif rest:
            assert answer.json()["code"] == rest


def test_every_path_is_mentioned(client: Caller) -> None:
    text = (REFERENCE / "rest.md").read_text("utf-8")
    for path in client.get("/api/v1/openapi.json").json()["paths"]:
        last = path.rstrip("/").rpartition("/")[2]
        assert last.strip("{}").removesuffix("_id") in text, path


def test_codes_are_documented_once_and_exist() -> None:
    made = set(JSON_CODES) | set(CODES.values())
    for file in (ROOT / "backend").rglob("*.py"):
        made |= set(CODE.findall(file.read_text("utf-8")))
    # The planner's own, a prefix, and a word of ASGI.
    made -= {"plan.badge-unknown", "plan.node-unknown", "plan.slot-unknown", "http.json-", "http.request"}
    rows = [line for line in (REFERENCE / "errors-http.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    listed = [code for row in rows for code in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == made
