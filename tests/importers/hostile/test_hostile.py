"""No file of a stranger runs code, opens another file, takes 1 GiB, or gives anything but a graph or one error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.importers.hostile import child
from tests.importers.hostile.cases import ANY, GRAPH, cases, symbol_bombs
from tests.importers.onnx.files import exported
from tests.importers.pt2.archives import decoder_archive

SECONDS = 20
"""Of processor time, for the slowest file."""


def test_hostile_files(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
    (tmp_path / "good" / "decoder.pt2").write_bytes(decoder_archive())
    (tmp_path / "good" / "decoder.onnx").write_bytes(exported("decoder"))
    (tmp_path / "good" / "graph.json").write_text(GRAPH, "utf-8")
    expected = {}
    for name, data, code in (*cases(str(mark)), *symbol_bombs()):
        (tmp_path / "bad" / name).write_bytes(data)
        assert name not in expected
        expected[name] = code
    environment = {key: value for key, value in os.environ.items() if "COV" not in key} | {"OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).parents[3]
    run = subprocess.run(
        [sys.executable, str(child.__file__), str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=600,
        env=environment | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    *lines, last = map(json.loads, run.stdout.splitlines())
    assert {line["file"] for line in lines} == set(expected)
    wrong = []
    for line in lines:
        code = expected[line["file"]]
        good = line["outcome"] == code if code != ANY else line["outcome"].startswith(("a graph", "model."))
        if not good or line["noted"] or line["seconds"] > SECONDS:
            wrong.append(line | {"expected": code})
    assert not wrong, "\n".join(map(str, wrong))
    assert last["peak"] < child.LIMIT
    assert not mark.exists()
