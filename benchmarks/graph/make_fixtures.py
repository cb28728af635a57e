"""Write the plan views that the canvas is tested and measured with: `python benchmarks/graph/make_fixtures.py`.

Only what the canvas draws is kept, so that the files stay small; names and numbers are the planner's own.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import planner
from planner import compose

FOLDER = Path(__file__).resolve().parents[2] / "frontend/src/views/graph/fixtures"
UNUSED = {"factors", "rule", "terms", "summary", "target", "forward_s", "backward_s"}


def main() -> None:
    """Write one plan with one run of layers, and one that an edit has cut into three."""
    large = planner.Plan.new(
        planner.load_model("llama-3.1-405b"), cluster="64x8-h100-sxm", mesh={"dp": 32, "tp": 16}, global_batch=64,
        seq=8192,
    )  # fmt: skip
    large = large.preset("zero3", axis="dp").preset("megatron", axis="tp").preset("sequence_parallel", axis="tp")
    write("llama-405b", large)
    cut = planner.Plan.new(
        planner.load_model("llama-3-8b"), cluster="8x8-h100-sxm", mesh={"dp": 8, "tp": 8}, global_batch=64, seq=8192
    )
    cut = cut.preset("zero3", axis="dp").preset("megatron", axis="tp")
    write("llama-8b-runs", cut.shard("model.layers.12.mlp.gate_proj", {"n": ()}))


def write(name: str, plan: planner.Plan) -> None:
    """Write the view of a plan."""
    view = asdict(compose.view(plan)[0])
    view["nodes"] = [{k: v for k, v in node.items() if k not in UNUSED} for node in view["nodes"]]
    text = json.dumps(view, separators=(",", ":"), ensure_ascii=False)
    path = FOLDER / f"{name}.json"
    path.write_text(text + "\n", "utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
