"""Covers: tracing.own, tracing.causes, example, load_own and load_code: modules of users."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from planner import Plan, load_model  # noqa: E402
from planner.compose import plan_text, read_plan, train  # noqa: E402
from planner.errors import ModelError  # noqa: E402
from planner.importers import load_code  # noqa: E402
from planner.importers.example import Example, read_example  # noqa: E402
from planner.importers.tracing.own import trace_module  # noqa: E402

from . import two_tower  # noqa: E402

INPUTS = {
    "history": torch.zeros(4, 6, dtype=torch.int64), "features": torch.zeros(4, 8),
    "labels": torch.zeros(4, dtype=torch.int64),
}  # fmt: skip


def code_of(module: torch.nn.Module, inputs: object = INPUTS, **options: object) -> tuple[str, str]:
    with pytest.raises(ModelError) as caught:
        load_model(module, inputs, **options)
    return caught.value.code, str(caught.value)


def test_two_towers_with_tied_and_unused_weights_are_planned() -> None:
    module = two_tower.plain()
    graph = load_model(module, INPUTS)
    assert graph.name == "TwoTower"
    # The tied weight counts once, the unused one too.
    assert graph.parameter_count == sum(p.numel() for p in module.parameters())
    assert {value.name: str(value.meta) for value in graph.root.inputs} == {
        "history": "int64[B, 6]", "features": "compute[B, 8]", "labels": "int64[B]",
    }  # fmt: skip
    plan = Plan.new(graph, cluster="1x2-h100-sxm", mesh={"dp": 2}, global_batch=8).preset("data_parallel", axis="dp")
    train(plan)
    # The plan file carries the graph: the module's code is not needed again.
    assert read_plan(plan_text(plan)).graph == graph


def test_shared_weights_are_read_under_one_name() -> None:
    program = trace_module(two_tower.plain(), INPUTS, "x")
    assert program.tied == (("score.weight", "items.weight"),)
    paths = [weight.path for weight in program.weights]
    assert "items.weight" in paths
    assert "score.weight" not in paths
    assert "unused" in paths


def test_a_data_dependent_branch_is_told_with_its_line() -> None:
    code, text = code_of(two_tower.branching())
    assert code == "model.trace-data-dependent"
    assert "two_tower.py:" in text
    assert "if self.branch and user.sum() > 0:" in text
    assert "torch.where" in text


def test_a_custom_operator_is_named() -> None:
    program = trace_module(two_tower.TwoTower(), INPUTS, "x")
    assert [call.target for call in program.calls if "two_tower" in call.target] == ["two_tower.shift.default"]
    # What no operator of the planner stands for is said, with the line; it is not left out.
    code, text = code_of(two_tower.TwoTower())
    assert code == "model.operator-unknown"
    assert "two_tower.shift.default" in text
    assert "two_tower.py:" in text
    code, text = code_of(two_tower.TwoTower(operator="secret"))
    assert code == "model.trace-no-meta"
    assert "two_tower::secret" in text
    assert "register_fake" in text


def test_the_loss_is_found_chosen_or_added() -> None:
    x = torch.zeros(4, 8)
    found = trace_module(two_tower.Classes(loss=True), x, "x")
    chosen = trace_module(two_tower.Classes(loss=True), x, "x", output="norm")
    added = trace_module(two_tower.Classes(), x, "x")
    square = trace_module(two_tower.Classes(), x, "x", loss="mse")
    assert (found.outputs[0], found.logits) == ("mean", "linear")
    assert chosen.outputs[0] != found.outputs[0]
    assert (added.outputs[0], added.logits, [i.name for i in added.inputs]) == ("loss", "linear", ["x", "labels"])
    assert [str(i.meta) for i in square.inputs] == ["compute[B, 8]", "compute[B, 5]"]


def test_symbols_are_those_that_are_given() -> None:
    program = trace_module(two_tower.plain(), INPUTS, "x", symbols={
        "history": ("B", "S"), "features": ("B", ""), "labels": ("B",),
    })  # fmt: skip
    assert [str(one.meta) for one in program.inputs] == ["int64[B, S]", "compute[B, 8]", "int64[B]"]
    fixed = trace_module(two_tower.plain(), INPUTS, "x", symbols={})
    assert [str(one.meta) for one in fixed.inputs] == ["int64[4, 6]", "compute[4, 8]", "int64[4]"]
    assert code_of(two_tower.plain(), symbols={"labels": ("B", "S")})[0] == "model.inputs-wrong"
    assert code_of(two_tower.plain(), ())[0] == "model.inputs-wrong"
    assert code_of(two_tower.plain(), ["text"])[0] == "model.inputs-wrong"


def test_a_dim_that_the_code_fixes_is_said() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(4, 8).mean()

    program = trace_module(Fixed(), torch.zeros(4, 8), "x")
    assert [str(one.meta) for one in program.inputs] == ["compute[4, 8]"]
    assert any("B" in sentence and "4" in sentence for sentence in program.fixed)


def test_the_module_is_not_changed() -> None:
    module = two_tower.plain()
    before = {name: (id(p), p.device.type) for name, p in module.named_parameters()}
    trace_module(module, INPUTS, "x")
    assert {name: (id(p), p.device.type) for name, p in module.named_parameters()} == before


def test_functions_classes_and_modules_make_the_same_graph() -> None:
    examples = [read_example(text) for text in ("int64[4,6]", "float32[4,8]", "int64[4]")]
    graphs = [load_code(f, examples, "x") for f in (two_tower.plain, two_tower.plain())]
    assert graphs[0] == graphs[1]
    assert graphs[0].root == load_model(two_tower.plain(), INPUTS).root


def test_what_a_function_raises_is_told() -> None:
    for factory, code, real in (
        (two_tower.broken, "model.module-failed", False), (two_tower.needs_values, "model.module-failed", False),
        (lambda: 7, "model.module-missing", False), (two_tower.broken, "model.module-failed", True),
    ):  # fmt: skip
        with pytest.raises(ModelError) as caught:
            load_code(factory, [read_example("float32[4,4]")], "x", real=real)
        assert caught.value.code == code
        assert ("--real" in str(caught.value)) == (code == "model.module-failed" and not real)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("int64[8,2048]", Example(name="", dtype="int64", sizes=(8, 2048), symbols=("", ""))),
        ("tokens = int64[B=8, S=2048]", Example(name="tokens", dtype="int64", sizes=(8, 2048), symbols=("B", "S"))),
        ("float32[]", Example(name="", dtype="float32", sizes=(), symbols=())),
    ],
)
def test_inputs_are_read(text: str, example: Example) -> None:
    assert read_example(text) == example


@pytest.mark.parametrize("text", ["", "int64", "int65[8]", "int64[x]", "int64[8", "int64[Q=8]", "a b=int64[8,]x"])
def test_what_is_no_input(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_example(text)
    assert caught.value.code == "model.input-syntax"
