"""Files of graphs from disk to plan: told apart by content, computing what the module does, and complete in a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from planner.compose import bundle, export, load_model, plan_text, read_plan
from planner.core.graph import ModelGraph
from planner.errors import ExportError, ModelError
from planner.hardware import cluster_name
from planner.importers import load_bytes
from planner.importers.graph_json import write_graph
from planner.plan import Plan
from planner.verify import verify_graph
from tests.tiny import tiny_plan

torch = pytest.importorskip("torch")
from tests.importers.onnx.files import exported as onnx_file  # noqa: E402
from tests.importers.pt2.archives import (  # noqa: E402
    Classifier,
    Decoder,
    classifier_archive,
    decoder_archive,
    saved,
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "decoder.pt2").write_bytes(decoder_archive())
    (folder / "classifier.pt2").write_bytes(classifier_archive())
    (folder / "decoder.onnx").write_bytes(onnx_file("decoder"))
    (folder / "decoder.json").write_text(write_graph(load_model(folder / "decoder.pt2")), "utf-8")
    return folder


def test_kinds_are_told_apart_by_content(files: Path) -> None:
    graphs = {suffix: load_model(files / f"decoder.{suffix}") for suffix in ("pt2", "onnx", "json")}
    assert [graph.source.kind for graph in graphs.values()] == ["pt2", "onnx", "graph_json"]
    assert graphs["json"].root == graphs["pt2"].root
    assert {graph.name for graph in graphs.values()} == {"decoder"}
    for graph in graphs.values():
        assert not verify_graph(graph)
        assert [repeat.name for repeat in graph.root.repeats] == ["layers"]
        assert graph.symbols == ("B", "S")
        assert graph.feeds[1].next_of == "tokens"
        assert graph.modules[0].class_name == "Decoder"
    held = (files / "decoder.pt2").read_bytes()
    assert load_bytes(held, "decoder.pt2") == graphs["pt2"]
    assert load_bytes(onnx_file("decoder"), "decoder") == graphs["onnx"]
    assert load_model(str(files / "decoder.json")) == graphs["json"]


def test_parameters_are_those_of_the_module(files: Path) -> None:
    graph, module = load_model(files / "decoder.pt2"), Decoder()
    assert graph.parameter_count == sum(p.numel() for p in module.parameters())
    graph = load_model(files / "classifier.pt2")
    assert graph.parameter_count == sum(p.numel() for p in Classifier().parameters())


@pytest.mark.parametrize("suffix", ["pt2", "onnx", "json"])
def test_a_plan_holds_the_whole_graph(files: Path, suffix: str) -> None:
    plan = tiny_plan("dp:2", graph=load_model(files / f"decoder.{suffix}"))
    assert read_plan(plan_text(plan)) == plan


def test_code_of_onnx_is_not_exported(files: Path, tmp_path: Path) -> None:
    plan = tiny_plan("dp:2", graph=load_model(files / "decoder.onnx"))
    with pytest.raises(ExportError) as caught:
        export(plan, tmp_path / "out")
    assert caught.value.code == "export.onnx-source"
    assert not (tmp_path / "out").exists()
    with pytest.raises(ExportError):
        bundle(plan)


def _exported(graph: ModelGraph, folder: Path) -> Any:
    """Return the unsharded model of a bundle, in float64."""
    plan = Plan.new(
        graph, cluster=cluster_name(1), mesh="whole:1", global_batch=3, seq=7 if "S" in graph.symbols else 0,
        precision="float64",
    )  # fmt: skip
    export(plan, folder)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        import train  # type: ignore[import-not-found]
        from parallel.mesh import Mesh  # type: ignore[import-not-found]

        return train.MODEL(Mesh(train.SETTINGS.mesh)).double()
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            del sys.modules[name]


@pytest.mark.parametrize("name", ["decoder", "classifier"])
def test_the_exported_archive_computes_what_the_module_does(files: Path, tmp_path: Path, name: str) -> None:
    module = (Decoder() if name == "decoder" else Classifier()).double()
    model = _exported(load_model(files / f"{name}.pt2"), tmp_path / "out")
    mine, theirs = dict(model.named_parameters()), dict(module.named_parameters())
    with torch.no_grad():
        for path, parameter in mine.items():
            parameter.copy_(theirs[path].reshape(parameter.shape))
    torch.manual_seed(5)
    if name == "decoder":
        given, labels = torch.randint(0, 20, (3, 7)), torch.randint(0, 20, (3, 7))
        labels[0, 3:] = -100
    else:
        given, labels = torch.randn(3, 3, 8, 8, dtype=torch.float64), torch.randint(0, 5, (3,))
    right = torch.nn.functional.cross_entropy(module(given).flatten(0, -2), labels.flatten(), ignore_index=-100)
    loss = model(given, labels)
    torch.testing.assert_close(loss, right, rtol=1e-9, atol=1e-9)
    loss.backward()
    right.backward()
    for path, parameter in mine.items():
        # What is frozen has no gradient there.
        if theirs[path].requires_grad:
            grad = theirs[path].grad.reshape(parameter.shape)
            torch.testing.assert_close(parameter.grad, grad, rtol=1e-7, atol=1e-9)


class Regression(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y, y.square().sum((1, 2, 3))


def test_what_is_trained_can_be_chosen() -> None:
    program = torch.export.export(Regression(), (torch.zeros(2, 3, 5, 4),), strict=False)
    with pytest.raises(ModelError) as caught:
        load_bytes(saved(program), "regression.pt2")
    assert caught.value.code == "model.loss-output"
    graph = load_bytes(saved(program), "regression.pt2", output="0", loss="mse")
    assert graph.logits == "linear"
    assert graph.fixed == ("The file fixes the batch: x is compute[2, 3, 5, 4].",)
    with pytest.raises(ModelError):
        load_bytes(b'{"model_type": "llama"}', "config.json", output="0")
