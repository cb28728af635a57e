"""A proof from a plain script, without a guard around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import planner

graph = planner.load_model("llama-tiny")
plan = planner.Plan.new(graph, cluster="1x2-h100-sxm", mesh={"tp": 2}, global_batch=2, seq=16)
print(planner.prove(plan.preset("megatron", axis="tp"), ranks=2).ok)
"""


def test_a_script_may_prove_at_its_top_level(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
