"""Bad input: one sentence, exit code 2, no traceback. The sentences are part of the product: they are here in full."""

import json
from pathlib import Path

import pytest

import planner
from planner.errors import Place

from .command import answer, shardwright

TINY = json.loads(planner.load_model("llama-tiny").source.content)
FAMILIES = (
    "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MixtralForCausalLM, "
    "Qwen3MoeForCausalLM and GPT2LMHeadModel"
)

FILES = {
    "broken.json": '{"architectures": ["LlamaForCausalLM"], "hidden_size": ',
    "unknown.json": json.dumps({"architectures": ["T5ForConditionalGeneration"]}),
    "missing.json": json.dumps({k: v for k, v in TINY.items() if k not in {"vocab_size", "hidden_size"}}),
    "heads.json": json.dumps({**TINY, "num_attention_heads": 6}),
    "list.json": "[1, 2]",
    "plan.json": '{"format": "shardwright-plan", "version": 1}',
    "torn-plan.json": '{"format": "shardwright-plan", "version": 1,',
    "future.json": '{"format": "shardwright-plan", "version": 99}',
}

MODELS = [
    (
        "broken.json", "model.json-syntax",
        "'broken.json' is not JSON: Expecting value at line 1, column 56. Mend the text there.",
    ),
    (
        "unknown.json", "model.architecture-unsupported",
        "'unknown.json' is of the architecture \"T5ForConditionalGeneration\", which can't be planned yet. "
        f"Supported are {FAMILIES}.",
    ),
    (
        "missing.json", "model.config-missing",
        "'missing.json' lacks vocab_size and hidden_size, which LlamaForCausalLM needs. "
        "Give what the model's config.json says.",
    ),
    (
        "heads.json", "model.heads-not-divisible",
        "In 'heads.json', num_attention_heads 6 is no multiple of num_key_value_heads 4. "
        "Change one of the numbers, or give head_dim if heads do not add up to hidden_size.",
    ),
    (
        "list.json", "model.config-type",
        "'list.json' holds a list, not a JSON object. Give a Hugging Face config.json.",
    ),
    (
        "gone.json", "model.file-missing",
        "There is no file 'gone.json'. Give the path of a config.json, or a model's name without a slash.",
    ),
    (
        "lama-3-8b", "model.unknown-name",
        "There is no model named 'lama-3-8b'. Did you mean llama-3-8b or llama-3-70b or llama-3.2-1b? "
        "Or give the path of a config.json.",
    ),
    (
        "torn-plan.json", "document.json-syntax",
        "The plan file is not JSON: Expecting property name enclosed in double quotes at line 1, column 45. "
        "Mend the text there.",
    ),
    (
        "future.json", "document.version",
        "The plan file is of version 99; this Shardwright reads 1, 2 and 3. "
        "Update Shardwright, or write the plan again with this one.",
    ),
]  # fmt: skip

OPTIONS = [
    (
        "--cluster 3x8-h100-sxm --mesh dp:4,tp:8 --preset megatron:tp", "mesh.device-count",
        "The mesh dp:4,tp:8 has 32 ranks, the cluster 3x8-h100-sxm has 24 devices. "
        "Make the axis sizes multiply to the number of devices, or choose another cluster.",
    ),
    (
        "--mesh tp:4 --shard|layers.*.mlp.gate_proj n=tp batch=tp", "layout.axis-reused",
        "model.layers.*.mlp.gate_proj: axis 'tp' is used for batch and for n; an operator may use an axis once. "
        "Take 'tp' from one of the two.",
    ),
    (
        "--mesh tp:4 --shard|transformer.h.*.mlp n=tp", "plan.target-unmatched",
        "None of the plan's 1 decisions names anything in llama-tiny (first: 'transformer.h.*.mlp'). "
        "Use paths of this model, such as 'model.layers.*/residual_mlp'.",
    ),
    (
        "--mesh tp:4,tp:2", "mesh.axis-repeated",
        "The mesh names axis 'tp' twice. Name each axis once.",
    ),
    (
        "--mesh tp-4", "mesh.syntax",
        "'tp-4' is not a mesh axis. Write name:size, e.g. dp:2,tp:4.",
    ),
    (
        "--mesh tp:0", "mesh.axis-size",
        "Mesh axis 'tp' has size 0. Give a size of at least 1.",
    ),
    (
        "--preset megatron:tp", "cli.mesh-missing",
        "Nothing says how the devices are arranged. Add a mesh, e.g. --mesh dp:2,tp:4.",
    ),
    (
        "--mesh tp:4 --preset megatron", "cli.preset-syntax",
        "--preset 'megatron' names no mesh axis. Write name:axis, e.g. megatron:tp.",
    ),
    (
        "--mesh tp:4 --preset fsdp:tp", "plan.preset-unknown",
        "There is no preset 'fsdp'. Use one of: data_parallel, expert_parallel, megatron, offload_optimizer, "
        "offload_parameters, recompute_full, recompute_selective, sequence_parallel, zero1, zero2, zero3.",
    ),
    (
        "--mesh tp:4 --preset megatron:dp", "mesh.axis-unknown",
        "The mesh tp:4 has no axis 'dp'. Use one of: tp.",
    ),
    (
        "--mesh tp:3 --shard|attention g=tp", "rule.factor-even",
        "model.layers.*.self_attn/attention: factor g of size 4 over tp (3 parts) must get equal parts: 4 % 3 = 1. "
        "Use a degree that divides 4, e.g. 1, 2.",
    ),
    (
        "--mesh tp:4 --shard|n=tp", "cli.shard-syntax",
        "--shard 'n=tp' does not name a target and then factors. Write e.g. 'layers.*.mlp.gate_proj n=tp batch=dp'.",
    ),
    (
        "--mesh tp:4 --shard|mlp.gate_proj n=tp n=-", "cli.shard-syntax",
        "--shard 'mlp.gate_proj n=tp n=-' gives n twice. Write e.g. 'layers.*.mlp.gate_proj n=tp batch=dp'.",
    ),
    (
        "--mesh tp:4 --store|lm_head.weight", "cli.store-syntax",
        "--store 'lm_head.weight' does not say which parameters are stored where. "
        "Write e.g. '* dp regather', 'lm_head.weight [tp, -]' or '* optimizer dp host'.",
    ),
    (
        "--mesh tp:4 --keep|residual_mlp tp", "cli.keep-syntax",
        "--keep 'residual_mlp tp' does not name a target, an axis and operands. "
        "Write e.g. 'layers.*.residual_mlp tp 0,1', one operand position a term.",
    ),
    (
        "--mesh dp:4 --gradients|auto fp8", "cli.gradients-syntax",
        "--gradients 'auto fp8' has the word 'fp8'. "
        "Write e.g. 'auto overlap', 'size:25MiB bf16' or 'index:8,16 sum'.",
    ),
    (
        "--mesh dp:4 --gradients|auto size:1MB", "cli.gradients-syntax",
        "--gradients 'auto size:1MB' says twice what its fusion is. "
        "Write e.g. 'auto overlap', 'size:25MiB bf16' or 'index:8,16 sum'.",
    ),
    (
        "--cluster 1x8-tpu --mesh tp:8", "hardware.device-unknown",
        "Cluster '1x8-tpu': there is no device 'tpu'. Use one of: a100-80-sxm, b200-sxm, h100-sxm, h200-sxm.",
    ),
    (
        "--global-batch 7 --microbatches 2", "plan.microbatches",
        "7 sequences can't be cut into 2 equal microbatches (7 % 2 = 1). "
        "Use a number of microbatches that divides the global batch.",
    ),
    (
        "--microbatches 0", "plan.not-positive",
        "microbatches is 0. Give a number of at least 1.",
    ),
    (
        "--precision int8", "plan.precision-unknown",
        "There is no precision 'int8'. Use one of: bf16, bf16-fp32grad, bf16-fp32sum, float64, fp16, fp32.",
    ),
    (
        "--save /nowhere/plan.json", "cli.not-written",
        "'/nowhere/plan.json' can't be written: No such file or directory. Name another file.",
    ),
]  # fmt: skip

LAYOUTS = [
    (
        "[dp [tp] --mesh dp:2 --shape 4", "layout.syntax",
        "'[dp' is not a layout: ',', '·' or ']' is expected in place of the end. Write e.g. [dp, tp·cp, -] +ep.",
    ),
    (
        "[dp] [-] --mesh dp:2 --shape 0", "surface.shape-syntax",
        "'0' is not a shape. Write sizes of at least 1, e.g. 4096x4096.",
    ),
    (
        "[dp,dp] [-,-] --mesh dp:2 --shape 4x4", "layout.axis-reused",
        "Axis 'dp' is used for dim 0 and for dim 1; an axis may be used once in a tensor. "
        "Take 'dp' from dim 1 or use another axis there.",
    ),
    ("[tp] [-] --mesh dp:2 --shape 4", "mesh.axis-unknown", "The mesh dp:2 has no axis 'tp'. Use one of: dp."),
    (
        "[dp] --mesh dp:2 --shape 4 --to [-]", "cli.two-layouts",
        "A redistribution is between two layouts; 1 are given as arguments, 1 by --from and --to. "
        "Write e.g. --from '[dp, tp]' --to '[tp, dp]'.",
    ),
    (
        "[4]|[0] [-] --mesh dp:2 --shape 4", "mesh.matrix-ranks",
        "The device matrix (4) has 4 ranks, the mesh dp:2 has 2. Use sizes whose product is 2.",
    ),
    ("[dp] [-] --shape 4", "cli.usage", "Missing option '--mesh'. See shardwright redistribute --help."),
    (
        "[dp] [-] --mesh dp:2 --shape 4 --cluster 1x8-h100-sxm", "mesh.device-count",
        "The mesh dp:2 has 2 ranks, the cluster 1x8-h100-sxm has 8 devices. "
        "Make the axis sizes multiply to the number of devices, or choose another cluster.",
    ),
]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def refused(code: str, message: str, *arguments: str) -> None:
    ran = shardwright(*arguments)
    told = shardwright(*arguments, "--json").json
    place = told.pop("place", None)
    under = [f"  {line}" for line in Place(**place).lines()] if place else []
    assert (ran.code, ran.out, ran.err.splitlines()) == (2, "", [f"error: {message}", *under])
    assert set(told) == {"code", "message", "hint", "subject"}
    assert told["code"] == code
    assert f"{told['message']} {told['hint']}".strip() == message


def words(text: str) -> list[str]:
    """Split a command line; behind a bar the rest is one word."""
    plain, bar, rest = text.partition("|")
    return [*plain.split(), *([rest] if bar else [])]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("source", "code", "message"), MODELS)
def test_bad_models(source: str, code: str, message: str) -> None:
    refused(code, message, "evaluate", source)


@pytest.mark.usefixtures("files")
def test_every_command_refuses_alike(tmp_path: Path) -> None:
    _, code, message = MODELS[0]
    refused(code, message, "export", "broken.json", str(tmp_path / "out"))
    refused(code, message, "prove", "broken.json")


@pytest.mark.usefixtures("files")
def test_a_plan_with_missing_keys_names_some() -> None:
    ran = shardwright("evaluate", "plan.json")
    assert ran.code == 2
    assert ran.err.startswith("error: In the plan file, model is missing; cluster is missing; mesh is missing; and ")


@pytest.mark.parametrize(("options", "code", "message"), OPTIONS)
def test_bad_options(options: str, code: str, message: str) -> None:
    refused(code, message, "evaluate", "llama-tiny", *words(options))


@pytest.mark.parametrize(("arguments", "code", "message"), LAYOUTS)
def test_bad_redistributions(arguments: str, code: str, message: str) -> None:
    refused(code, message, "redistribute", *arguments.split())


CARETS = [
    (("[dp, tp", "[-]", "4"), "[dp, tp", "       ^"),
    (("[dp, tp·]", "[-]", "4"), "[dp, tp·]", "        ^"),
    (("[dp,dp]", "[-,-]", "4x4"), "[dp,dp]", "    ^^"),
    (("[-] prod(dp)", "[-]", "4"), "[-] prod(dp)", "    ^^^^"),
    (("[-] + cp", "[-]", "4"), "[-] + cp", "      ^^"),
    (("[-, -]", "P('dp', 'cp')", "4x4"), "P('dp', 'cp')", "         ^^"),
    (("P('dp' 'tp')", "[-]", "4"), "P('dp' 'tp')", "       ^"),
    (("Shard(0), Partial(prod)", "[-]", "4"), "Shard(0), Partial(prod)", "                  ^^^^"),
    (("Shard(0), Chard(1)", "[-]", "4"), "Shard(0), Chard(1)", "          ^^^^^^^^"),
    (("[2, 4] | [x]", "[-]", "4"), "[2, 4] | [x]", "          ^"),
    (("[-]", "[-]", "4x0"), "4x0", "  ^"),
    (("[-]", "[-]", "4x"), "4x", "  ^"),
    (("[-, -]", "[-]", "4"), "[-, -]", "^^^^^^"),
    (("[界, ?]", "[-]", "4"), "[界, ?]", " ^"),
]


@pytest.mark.parametrize(("given", "shown", "carets"), CARETS)
def test_carets_stand_under_the_place(given: tuple[str, str, str], shown: str, carets: str) -> None:
    source, target, shape = given
    ran = shardwright("redistribute", "--from", source, "--to", target, "--mesh", "dp=2,tp=2", "--shape", shape)
    assert (ran.code, ran.err.splitlines()[1:]) == (2, [f"  {shown}", f"  {carets}"])


def test_carets_in_a_mesh_and_in_a_long_text() -> None:
    ran = shardwright("redistribute", "[-]", "[-]", "--mesh", "dp:2, dp:4", "--shape", "8")
    assert ran.err.splitlines()[1:] == ["  dp:2, dp:4", "        ^^"]
    ran = shardwright("redistribute", f"[{'a·' * 200}?]", "[-]", "--mesh", "dp:2", "--shape", "8")
    shown, carets = ran.err.splitlines()[1:]
    assert len(shown) < 80
    assert shown[carets.index("^")] == "?"


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ("evalute", "No such command 'evalute'"),
        ("evaluate", "Missing argument 'MODEL_OR_PLAN'. See shardwright evaluate --help."),
        ("evaluate llama-tiny --colour", "No such option: --colour"),
        ("evaluate llama-tiny --details=3", "Option '--details' does not take a value"),
        ("evaluate llama-tiny --seq many", "Invalid value for '--seq'"),
        ("prove llama-tiny --ranks 0", "Invalid value for '--ranks'"),
    ],
)
def test_usage_is_one_line_too(arguments: str, start: str) -> None:
    ran = shardwright(*arguments.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {start}")
    assert ran.err.endswith(" --help.\n")
    assert ran.err.count("\n") == 1
    assert shardwright(*arguments.split(), "--json").json["code"] == "cli.usage"


def test_an_illegal_plan_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert (
        shardwright("evaluate", "llama-tiny", "--mesh", "tp:4", "--shard", "nothing n=tp", "--save", str(path)).code
        == 2
    )
    assert not path.exists()


def test_a_full_folder_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(
        "export.folder-not-empty", f"{str(tmp_path)!r} is not an empty folder. Name a new folder.",
        "export", "llama-tiny", str(tmp_path),
    )  # fmt: skip


def test_decisions_that_match_nothing_are_listed_and_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    arguments = ("--mesh", "tp:2", "--preset", "megatron:tp", "--shard", "decoder.*.fc1 n=tp", "--save", path)
    text = shardwright("evaluate", "llama-tiny", *arguments)
    warning = (
        "warning: The decision on 'decoder.*.fc1' (factor n) names nothing in llama-tiny; it is kept and has no "
        "effect. Check the path and the factor's name."
    )
    assert text.code == 0
    assert text.out.splitlines()[-1] == warning
    again = answer("evaluate", path)
    assert [(d["code"], d["subject"]) for d in again["diagnostics"]] == [("plan.target-unmatched", "decoder.*.fc1")]
    assert "decoder.*.fc1" in Path(path).read_text()
    exported = shardwright("export", path, str(tmp_path / "out"))
    assert (exported.code, exported.err) == (0, f"{warning}\n")


def test_faults_of_ours_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("planner.compose.evaluate", broken)
    with pytest.raises(ZeroDivisionError):
        shardwright("evaluate", "llama-tiny")


def test_interrupts_end_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(plan: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.compose.evaluate", interrupted)
    ran = shardwright("evaluate", "llama-tiny")
    assert (ran.code, ran.out, ran.err) == (130, "", "")
