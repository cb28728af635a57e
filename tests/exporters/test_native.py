"""The native form: its files, its text, and what it refuses."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.compose import bundle, export, load_model
from planner.core.graph import ModelGraph
from planner.errors import ExportError
from planner.plan import Plan
from tests.exporters.test_clean import RULES, SELECT, TYPES, found
from tests.proof.native_models import gpt_like, odd
from tests.tiny import tiny_config, tiny_gpt2, tiny_graph, tiny_plan, with_dropout

MESH = "dp:2,tp:2"
PRESETS = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))


def native(plan: Plan) -> dict[str, str]:
    return bundle(plan, "native")


def small_plan(graph: ModelGraph | None = None) -> Plan:
    return tiny_plan(MESH, *PRESETS, graph=graph)


def in_stages(
    mesh: str = "pp:2", *presets: tuple[str, str], schedule: str = "1f1b", graph: ModelGraph | None = None,
    stages: int = 2,
) -> Plan:  # fmt: skip
    """Return a plan of four layers in equal stages."""
    graph = graph or tiny_graph(num_hidden_layers=4)
    path, each = graph.root.repeats[0].name, 4 // stages
    where = {f"{path}.{each * n}-{each * n + each - 1}": n for n in range(stages)} | {"lm_head": stages - 1}
    plan = tiny_plan(mesh, *presets, graph=graph, microbatches=4)
    return plan.pipelined("pp", schedule, per_rank=stages // plan.decisions.mesh.size("pp"), stages=where)


def test_files() -> None:
    files = native(small_plan())
    carried = {name for name in files if name.startswith("parallel/")}
    launch = {"launch/torchrun.sh", "launch/slurm.sbatch", "launch/kubernetes.yaml"}
    assert set(files) - carried == {"model.py", "parallelize.py", "train.py", "plan.json", "README.md"} | launch
    assert {"parallel/native.py", "parallel/data.py", "parallel/operators.py"} <= carried
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
            assert max(map(len, text.splitlines())) <= 120, name


@pytest.mark.parametrize("graph", [tiny_graph(), tiny_graph("qwen3", tied=True), gpt_like()], ids=lambda g: g.name)
def test_the_model_knows_nothing_of_ranks(graph: ModelGraph) -> None:
    """It is the same text for every plan, and imports no part of torch.distributed."""
    texts = {native(tiny_plan(mesh, *presets, graph=graph))["model.py"] for mesh, presets in (
        ("dp:2", (("data_parallel", "dp"),)), ("dp:2,tp:2", (("zero3", "dp"), ("megatron", "tp"))),
    )}  # fmt: skip
    whole = texts.pop()
    assert "distributed" not in whole
    # Under tensor parallelism, the number of heads is left open.
    assert [
        line.replace("(-1, ", "(8, ") for line in (texts or {whole}).pop().splitlines() if "unflatten" not in line
    ] == [line for line in whole.splitlines() if "unflatten" not in line]


def test_what_reads_a_column_of_heads_leaves_their_number_open() -> None:
    text = native(small_plan())["model.py"]
    assert "self.q_proj(input_layernorm)" in text
    assert "q_proj.unflatten(2, (-1, 4))" in text
    assert "self.q_proj = nn.Linear(32, 32, bias=False)" in text


@pytest.mark.parametrize("mesh", ["dp:2,tp:2", "tp:2,dp:2"])
def test_tensor_parallelism_is_the_innermost_dim(mesh: str) -> None:
    text = native(tiny_plan(mesh, ("zero3", "dp"), ("megatron", "tp")))["parallelize.py"]
    assert 'mesh_dim_names=("dp", "tp")' in text
    assert ("permute(1, 0)" in text) == (mesh == "tp:2,dp:2")


@pytest.mark.parametrize(
    ("preset", "reshard", "dims"),
    [("data_parallel", False, '("dp", "shard")'), ("zero2", False, '("dp",)'), ("zero3", True, '("dp",)')],
)
def test_stages_of_zero(preset: str, reshard: bool, dims: str) -> None:
    text = native(tiny_plan("dp:2", (preset, "dp")))["parallelize.py"]
    assert f"reshard_after_forward={reshard}" in text
    assert f"mesh_dim_names={dims}" in text


def test_the_precision_is_a_policy() -> None:
    plan = small_plan().precise("bf16")
    files = native(plan)
    assert "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch." in files["parallelize.py"]
    assert 'dtype="float32"' in files["train.py"]
    assert "lm_head.flatten(0, -2).float()" in files["model.py"]


def test_the_table_of_tokens_is_tied_again() -> None:
    text = native(small_plan(tiny_graph(tied=True)))["parallelize.py"]
    tied = 'model.get_submodule("lm_head").weight = model.get_parameter("model.embed_tokens.weight")'
    assert text.index("parallelize_module(model") < text.index(tied) < text.index("fully_shard(model")


def test_runs_of_layers_have_plans_of_their_own() -> None:
    plan = tiny_plan(MESH, ("zero3", "dp"), ("megatron", "tp"))
    plan = plan.shard("layers.1.mlp.gate_proj|up_proj", {"n": ()}).shard("layers.1.mlp.down_proj", {"k": ()})
    text = native(plan)["parallelize.py"]
    assert "MODEL_LAYERS_0_PLAN" in text
    assert "MODEL_LAYERS_1_PLAN" in text


REFUSED: dict[str, tuple[Callable[[], Plan], str]] = {
    "zero1": (lambda: tiny_plan("dp:2", ("zero1", "dp")), "optimizer state"),
    "two axes of tensor parallelism": (lambda: tiny_plan("a:2,b:2", ("megatron", "a"), ("megatron", "b")), "a and b"),
    "weights that are [in, out]": (lambda: tiny_plan("tp:2", ("megatron", "tp"), graph=tiny_gpt2()), "c_attn.weight"),
    "a linear layer that is sharded along the sequence": (
        lambda: small_plan().shard("up_proj", {"n": (), "seq": ("tp",)}), "no style for that",
    ),
    "a result that stays partial": (
        lambda: tiny_plan("tp:2").shard("q_proj", {"k": ("tp",)}), "q_proj",
    ),
    "a norm over shards of its dim": (lambda: tiny_plan("tp:2").shard("model.norm", {"h": ("tp",)}), "model.norm"),
    "dropout": (lambda: tiny_plan("dp:2", ("data_parallel", "dp"), graph=with_dropout(tiny_graph())), "dropout"),
    "a schedule that torch does not have": (lambda: in_stages(schedule="zb-h1"), "no schedule zb-h1"),
    "a value that skips a stage": (lambda: in_stages("pp:4", graph=odd("skip"), stages=4), "to the next stage alone"),
    "an input that a later stage reads": (lambda: in_stages(graph=odd("late")), "stage 1 reads this input"),
    "stages that take unequal parts": (
        lambda: in_stages("pp:2,tp:2", *PRESETS[1:]).batch(global_batch=8, seq=7, microbatches=4), "unequal parts",
    ),
    "a stage for the loss alone": (
        lambda: tiny_plan("pp:2", microbatches=2).pipelined("pp", stages={"layers.0-1": 0, "lm_head": 0, "loss": 1}),
        "nothing else runs on stage 1",
    ),
    "a weight that is used twice, where its gradient is computed apart": (
        lambda: in_stages(schedule="zb-v", graph=odd("twice"), stages=4), "each may be used once",
    ),
    "recomputed layers": (lambda: small_plan().recompute("layers.*"), "recompute"),
    "parameters on the host": (lambda: small_plan().store("lm_head.weight", place="host"), "on the host"),
    "partial results that are added in fp32": (lambda: small_plan().precise("bf16-fp32sum"), "RowwiseParallel"),
    "compressed gradients": (lambda: small_plan().gradients(compression="int8"), "passed as int8"),
    "an unused axis": (lambda: tiny_plan("dp:2,tp:2", ("data_parallel", "dp")), "nothing is sharded over it"),
    "experts": (lambda: tiny_plan("tp:2", ("expert_parallel", "tp"), graph=tiny_graph("mixtral")), "experts"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_can_not_express_is_named(name: str) -> None:
    make, named = REFUSED[name]
    with pytest.raises(ExportError) as caught:
        native(make())
    assert caught.value.code == "export.native-decisions"
    assert named in str(caught.value)
    assert "explicit form" in str(caught.value)


def test_a_large_model_reads_as_by_hand() -> None:
    """The 32 layers of a real model are one plan of styles."""
    plan = Plan.new(load_model("llama-3-8b"), cluster="8x8-h100-sxm", mesh="dp:8,tp:8", global_batch=64, seq=8192)
    for name, axis in PRESETS:
        plan = plan.preset(name, axis=axis)
    text = native(plan)["parallelize.py"]
    assert text.count("_PLAN: dict[str, ParallelStyle]") == 2
    assert "for index in range(32):" in text


STAGED = ("pp:2,dp:2,tp:2", *PRESETS)


def test_stages_share_one_model() -> None:
    """It is that of the plan in one piece; each stage takes modules out of it."""
    graph = tiny_graph(tied=True, num_hidden_layers=4)
    staged, whole = native(in_stages(*STAGED, graph=graph)), native(small_plan(graph))
    assert staged["model.py"] == whole["model.py"]
    assert staged["parallelize.py"].count("_PLAN: dict[str, ParallelStyle]") == 2
    assert "MODEL_LAYERS_0_3_PLAN" in staged["parallelize.py"]
    assert 'mesh_dim_names=("pp", "dp", "tp")' in staged["parallelize.py"]
    assert "nn.Linear" not in staged["pipeline.py"]
    assert '"model.embed_tokens.weight": {0: "model.embed_tokens.weight", 1: "lm_head.weight"}' in staged["pipeline.py"]


def test_stages_that_differ_in_their_layers_share_a_class() -> None:
    text = native(in_stages("pp:4", stages=4))["pipeline.py"]
    assert "what stages 1, 2 run of model." in text
    assert "LAYERS = (range(1), range(1, 2), range(2, 3), range(3, 4))" in text


def test_a_stage_without_layers() -> None:
    plan = tiny_plan("pp:2", graph=tiny_graph(), microbatches=2)
    files = native(plan.pipelined("pp", stages={"model.embed_tokens": 0, "model.layers.0-1": 1, "lm_head": 1}))
    assert "self.layers = model.layers[:2]" in files["pipeline.py"]
    assert "LAYERS" not in files["pipeline.py"]
    assert 'for layer in held.get("model.layers", nn.Module()).children():' in files["parallelize.py"]


def test_modules_of_one_stage_are_tied_in_it() -> None:
    text = native(in_stages("pp:2,dp:2", ("zero3", "dp"), graph=odd("twice")))
    assert "SHARED: Mapping[str, Mapping[int, str]] = {}" in text["pipeline.py"]
    assert "self.two = model.two" in text["pipeline.py"]


def test_gradients_are_reduced_once_a_step_in_stages() -> None:
    files = native(in_stages("pp:2,dp:2", ("zero3", "dp")))
    assert "once a step, not after each microbatch" in files["README.md"]
    assert "sync_each=False" in files["train.py"]


@pytest.mark.parametrize("name", ["pipeline.py", "parallelize.py"])
def test_golden_stages(golden: Callable[[str, str], None], name: str) -> None:
    graph = tiny_graph(tied=True, num_hidden_layers=4)
    golden(f"native_stages/{name}", native(in_stages(*STAGED, graph=graph))[name])


@pytest.mark.parametrize("name", ["model.py", "parallelize.py", "train.py", "README.md"])
def test_golden(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"native/{name}", native(small_plan())[name])


def test_the_same_plan_gives_the_same_text() -> None:
    assert native(small_plan(load_model(json.dumps(tiny_config())))) == native(small_plan())


@pytest.mark.parametrize("plan", [small_plan(), in_stages(*STAGED)], ids=["whole", "stages"])
def test_every_imported_name_is_used(plan: Plan) -> None:
    files = native(plan)
    for name in {"model.py", "parallelize.py", "pipeline.py", "train.py"} & files.keys():
        tree = ast.parse(files[name])
        names = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        assert names - {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} == set(), name


@pytest.mark.slow
def test_it_trains_alone_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """With nothing but torch, on two ranks; four steps are two and two more."""
    pytest.importorskip("torch")
    plan = tiny_plan("tp:2", ("megatron", "tp"), ("sequence_parallel", "tp"))
    export(plan, tmp_path / "bundle", "native")

    def losses(steps: int, folder: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py",
             "--steps", str(steps), "--lr", "1e-2", "--clip", "0.1", "--checkpoint", folder],
            cwd=tmp_path / "bundle", capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return [line for line in done.stdout.splitlines() if line.startswith("step ")]

    together = losses(4, "once")
    assert len(together) == 4
    assert losses(2, "twice") + losses(4, "twice") == together


def test_the_command_names_every_form() -> None:
    """Its help is written by hand, so that a command loads no table that it does not need."""
    from planner.cli.options import Form
    from planner.exporters import EXPORTERS

    (option,) = Form.__metadata__
    assert option.help == f"Form of the code: {', '.join(EXPORTERS)}."


@pytest.mark.parametrize(
    "plan",
    [
        small_plan(tiny_graph("qwen3", tied=True)), tiny_plan("dp:2", ("zero2", "dp"), graph=tiny_gpt2()),
        in_stages(*STAGED, graph=tiny_graph("qwen3", tied=True, num_hidden_layers=4)),
        in_stages("pp:2,dp:2", ("zero2", "dp"), schedule="zb-v", graph=tiny_gpt2(n_layer=4), stages=4),
    ],
    ids=["styles", "other dims", "stages", "stages in a V"],
)  # fmt: skip
def test_ruff_finds_nothing(plan: Plan, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    export(plan, tmp_path / "bundle", "native")
    assert found(tmp_path / "bundle", "ruff", "format", "--diff", *RULES) == ""
    assert found(tmp_path / "bundle", "ruff", "check", *RULES, *SELECT) == ""


@pytest.mark.slow
@pytest.mark.parametrize("plan", [small_plan(), in_stages(*STAGED)], ids=["whole", "stages"])
def test_mypy_finds_nothing(plan: Plan, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    export(plan, tmp_path / "bundle", "native")
    assert found(tmp_path / "bundle", "mypy", f"--cache-dir={tmp_path / 'cache'}", *TYPES) == ""
