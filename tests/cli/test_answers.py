"""What the commands answer: texts as a person reads them, JSON as docs/reference/cli.md says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.collectives_text import collectives_text
from planner.cli.syntax import gradients
from planner.cli.table import columns, folded
from planner.compose import evaluate, load_model
from planner.core.gradient_decision import GradientDecision
from planner.hardware import PRECISIONS
from planner.plan import Plan

from .command import answer, shardwright

ROOT = Path(__file__).parents[2]
TP = ("llama-3-8b", "--mesh", "tp:8", "--preset", "megatron:tp")
ALL = ("llama-3-8b", "--mesh", "dp:2,tp:4", "--preset", "data_parallel:dp", "--preset", "megatron:tp",
       "--preset", "sequence_parallel:tp", "--global-batch", "8")  # fmt: skip

TEXTS = {
    "models": ("models",),
    "evaluate-default": ("evaluate", "llama-tiny"),
    "evaluate-megatron": ("evaluate", *TP),
    "evaluate-product": ("evaluate", *ALL),
    "evaluate-zero3": ("evaluate", "llama-3-8b", "--mesh", "dp:8", "--preset", "zero3:dp"),
    "evaluate-details": ("evaluate", "llama-tiny", "--mesh", "dp:2", "--preset", "data_parallel:dp", "--details"),
    "redistribute-exchange": ("redistribute", "[dp, tp]", "[tp, dp]", "--mesh", "dp:2,tp:4", "--shape", "4096x4096"),
    "redistribute-partial": ("redistribute", "[dp, -] +tp", "[-, tp]", "--mesh", "dp:2,tp:4", "--shape", "4096x4096"),
    "redistribute-nothing": ("redistribute", "[dp, -]", "[dp, -]", "--mesh", "dp:2", "--shape", "4x4"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name, golden):
    ran = shardwright(*TEXTS[name])
    assert (ran.code, ran.err) == (0, "")
    golden(f"cli/{name}.txt", ran.out)


def test_piped_text_has_no_colour_and_no_folds():
    for name in ("evaluate-product", "models"):
        assert "\x1b" not in shardwright(*TEXTS[name]).out
    assert "gradient of post_attention_layernorm ← mlp.gate_proj, up_proj" in shardwright("evaluate", *TP).out


def test_narrow_terminals_get_two_lines_a_row():
    graph = load_model("llama-3-8b")
    plan = Plan.new(graph, cluster="1x8-h100-sxm", mesh="tp:8", global_batch=1, seq=8192).preset("megatron", axis="tp")
    rows = evaluate(plan).collectives
    narrow, wide = collectives_text(rows, 80), collectives_text(rows, None)
    assert max(map(len, narrow)) <= 80 < max(map(len, wide))
    assert narrow[0] == "collectives"
    assert narrow[1].index("collective") == narrow[5].index("all-reduce")
    assert {word for line in narrow for word in line.split()} == {word for line in wide for word in line.split()}


def test_columns_line_up():
    assert columns([("a", "1"), ("bcd", "22")], "<>") == ["a     1", "bcd  22"]
    assert folded(["one two three"], 8) == ["one two", "      three"]
    assert folded(["one two three"], None) == ["one two three"]


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("none", GradientDecision()),
        ("auto overlap", GradientDecision(fusion="auto", overlap=True)),
        (
            "size:25MiB sum int8",
            GradientDecision(fusion="size", bucket_bytes=25 << 20, reduction="sum", compression="int8"),
        ),
        ("size:3K mean", GradientDecision(fusion="size", bucket_bytes=3000)),
        ("one_bit index:8,16", GradientDecision(fusion="index", indices=(8, 16), compression="one_bit")),
    ],
)
def test_words_on_gradients(text, decision):
    assert gradients(text) == decision


def test_buckets_in_json():
    found = answer(
        "evaluate", "llama-tiny", "--mesh", "dp:4", "--preset", "data_parallel:dp", "--gradients", "auto overlap"
    )
    buckets = [row for row in found["collectives"] if row["gradients"]]
    assert [len(row["gradients"]) for row in buckets] == [2, 9, 1]
    assert "exposed gradient communication" in found["step_time"]["parts"]


def test_models_in_json():
    models = {m["name"]: m for m in answer("models")["models"]}
    assert models["llama-3-8b"]["parameters"] == 8_030_261_248
    assert models["llama-3.1-405b"] | {"digest": ""} == {
        "name": "llama-3.1-405b", "architecture": "LlamaForCausalLM", "layers": 126, "hidden": 16384,
        "parameters": 405_853_388_800, "source": "hf_config", "digest": "",
        "symbols": ["B", "S"], "fixed": [], "group": "dense",
        "start": {
            "cluster": "64x8-h200-sxm", "mesh": [{"axis": "dp", "size": 64}, {"axis": "tp", "size": 8}],
            "presets": [
                {"name": "zero3", "axis": "dp"}, {"name": "megatron", "axis": "tp"},
                {"name": "sequence_parallel", "axis": "tp"},
            ],
            "global_batch": 64, "seq": 4096, "microbatches": 1,
        },
    }  # fmt: skip


def test_shape_of_an_evaluation():
    found = answer("evaluate", *TP)
    assert set(found) == {
        "model", "plan", "step_time", "mfu", "samples_per_second", "tokens_per_second", "flops", "memory",
        "host_memory", "collectives", "diagnostics", "costs", "units",
    }  # fmt: skip
    assert found["plan"] == {
        "cluster": "1x8-h100-sxm", "devices": 8, "mesh": [{"axis": "tp", "size": 8}], "global_batch": 1, "seq": 8192,
        "microbatches": 1, "precision": "bf16", "assumed": ["cluster", "global_batch", "seq"],
    }  # fmt: skip
    seconds = found["step_time"]["seconds"]
    low, high = found["step_time"]["interval"]
    assert low <= seconds <= high
    assert sum(found["step_time"]["parts"].values()) == pytest.approx(seconds)
    assert sum(found["memory"]["parts"].values()) == pytest.approx(found["memory"]["bytes"])
    assert found["costs"]["step_time"]["value"] == seconds
    assert found["costs"]["memory"]["value"] == found["memory"]["bytes"]
    assert set(found["costs"]["memory"]) == {"name", "value", "unit", "formula", "children"}
    assert set(found["collectives"][0]) == {
        "scope", "phase", "value", "readers", "kind", "axes", "group_size", "payload_bytes", "wire_bytes", "seconds",
        "count", "source", "target", "parameter", "again", "gradients",
    }  # fmt: skip
    assert found["tokens_per_second"] == pytest.approx(8192 / seconds)


def test_every_field_is_in_the_reference():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    found = answer("evaluate", *TP)
    moved = answer(*TEXTS["redistribute-exchange"])
    for fields in (found, found["plan"], found["model"], found["collectives"][0], moved, moved["steps"][0]):
        assert [name for name in fields if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("options", "batch", "seq"),
    [
        ((), 1, 512),
        (("--mesh", "dp:4", "--preset", "data_parallel:dp"), 4, 512),
        (("--mesh", "a:2,b:2", "--preset", "zero3:a+b", "--microbatches", "3"), 12, 512),
        (("--mesh", "a:2,b:2", "--preset", "data_parallel:a·b"), 4, 512),
        (("--mesh", "dp:2", "--shard", "embed_tokens batch=dp", "--seq", "16"), 2, 16),
        (("--mesh", "dp:2", "--preset", "data_parallel:dp", "--global-batch", "6"), 6, 512),
    ],
)
def test_defaults_follow_the_plan(options, batch, seq):
    plan = answer("evaluate", "llama-tiny", *options)["plan"]
    assert (plan["global_batch"], plan["seq"]) == (batch, seq)


@pytest.mark.parametrize(
    ("mesh", "cluster"),
    [("tp:8", "1x8"), ("dp:12", "2x6"), ("dp:2,tp:8", "2x8"), ("dp:13", "13x1"), ("dp:3", "1x3"), ("dp:20", "4x5")],
)
def test_clusters_fit_the_mesh(mesh, cluster):
    assert answer("evaluate", "llama-tiny", "--mesh", mesh)["plan"]["cluster"] == f"{cluster}-h100-sxm"


def test_a_plan_file_takes_further_edits(tmp_path):
    path = str(tmp_path / "plan.json")
    first = answer("evaluate", *ALL, "--save", path)
    assert answer("evaluate", path) | {"plan": 0} == first | {"plan": 0}
    assert answer("evaluate", path)["plan"] == first["plan"] | {"assumed": []}
    stored = answer("evaluate", path, "--store", "* dp regather", "--seq", "4096")
    assert stored["plan"]["seq"] == 4096
    assert any(r["again"] for r in stored["collectives"])
    assert stored["memory"]["parts"]["optimizer state"] < first["memory"]["parts"]["optimizer state"]
    late = answer("evaluate", path, "--store", "* gradient dp deferred", "--store", "lm_head.weight optimizer [-, dp]")
    assert any(r["readers"] == ["storage"] for r in late["collectives"])
    assert {r["phase"] for r in late["collectives"] if r["parameter"]} == {"update"}
    other = answer("evaluate", path, "--mesh", "dp:4,tp:4")
    assert (other["plan"]["cluster"], other["plan"]["assumed"]) == ("2x8-h100-sxm", ["cluster"])


def test_a_kept_partial_sum_and_a_layout_are_read():
    options = ("--mesh", "tp:2", "--preset", "megatron:tp", "--store", "lm_head.weight [-, tp]")
    rows = answer("evaluate", "llama-tiny", *options)["collectives"]
    assert any(r["value"] == "lm_head.weight" for r in rows)
    kept = shardwright("evaluate", "llama-tiny", *options, "--keep", "model.layers.*/residual_mlp tp 0,1")
    assert kept.code == 0


def test_redistribution_in_json():
    found = answer(*TEXTS["redistribute-exchange"])
    assert found["received_bytes"] == found["bound_bytes"] == 4096 * 4096 * 2 / 8
    assert found["seconds"] == sum(step["seconds"] for step in found["steps"])
    sums = answer(*TEXTS["redistribute-partial"])
    assert (sums["bound_of_sums"], sums["bound_bytes"]) == (True, sums["received_bytes"])
    made = answer("redistribute", "[dp]", "[dp] +tp", "--mesh", "dp:2,tp:4", "--shape", "64")
    assert made["bound_bytes"] is None
    nothing = answer(*TEXTS["redistribute-nothing"])
    assert (nothing["steps"], nothing["seconds"], nothing["bound_bytes"]) == ([], 0, 0)


def test_redistribution_by_another_objective():
    options = ("--mesh", "dp:2,tp:4", "--shape", "4096x4096", "--cluster", "2x4-h100-sxm")
    found = answer("redistribute", "[tp, -]", "[dp, -]", *options, "--objective", "bytes", "--no-exchange", "--pareto")
    assert (found["objective"], found["gap"]) == ("bytes", 0)
    assert "exchange" not in {step["kind"] for step in found["steps"]}
    assert found["received_bytes"] == min(way["received_bytes"] for way in found["front"])
    seconds = [way["seconds"] for way in found["front"]]
    assert seconds == sorted(seconds)
    text = shardwright("redistribute", "[tp, -]", "[dp, -]", *options, "--pareto").out
    assert "No way is better in every respect than one of these:" in text


def test_plain_keyboards_join_axes_by_plus():
    plain = answer("redistribute", "[dp+tp, -]", "[-, -]", "--mesh", "dp:2,tp:4", "--shape", "64×64")
    assert plain["source"] == "[dp·tp, -]"
    partial = answer("redistribute", "[-] +dp+tp", "[-]", "--mesh", "dp:2,tp:4", "--shape", "64", "--dtype", "float32")
    assert (partial["source"], partial["steps"][0]["passed_bytes"]) == ("[-] +dp·tp", 256)


def test_export_lists_what_it_writes(tmp_path):
    out = tmp_path / "bundle"
    ran = shardwright("export", "llama-tiny", str(out), "--mesh", "tp:2", "--preset", "megatron:tp")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == sorted(str(path) for path in out.rglob("*") if path.is_file())
    assert str(out / "model.py") in ran.out
    told = answer("export", str(out / "plan.json"), str(tmp_path / "again"))
    assert {"model.py", "plan.json", "train.py"} <= set(told["files"])


def test_help_and_version():
    ran = shardwright()
    assert ran.code == 0
    assert all(name in ran.out for name in ("models", "evaluate", "export", "prove", "redistribute", "serve"))
    options = shardwright("evaluate", "--help").out
    assert all(name in options for name in PRECISIONS)
    assert shardwright("--version").out.startswith("shardwright 0.")


def test_serve_hands_over_to_the_server(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "execv", lambda *call: ran.append(call))
    assert shardwright("serve", "--port", "8123").code == 0
    assert ran == [(sys.executable, [sys.executable, "-P", "-m", "backend", "--port=8123"])]


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = "from planner.cli import app; app(prog_name='shardwright')"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, errors="replace", cwd=ROOT,
        check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_in_a_process_of_its_own():
    done = shell("models", "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["models"]) >= 8
    done = shell("evaluate", "no-such-model")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: There is no model named 'no-such-model'.")
    assert "Traceback" not in done.stderr


def test_narrow_encodings_are_survived():
    done = shell("redistribute", "[dp+tp]", "[-]", "--mesh", "dp:2,tp:2", "--shape", "8", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "] ? [-]  8 bfloat16" in done.stdout


def test_models_imports_little():
    program = "import sys\nfrom planner.cli import app\ntry:\n    app(['models'])\nexcept SystemExit:\n    pass\n"
    program += "print(*[m for m in ('numpy', 'torch', 'fastapi', 'planner.compose') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == ""
