"""Whole files of torch's exporter, and files that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from planner.errors import ModelError
from planner.importers.onnx import read_program
from tests.importers.onnx.files import exported, one
from tests.importers.programs import run_program
from tests.importers.pt2.archives import Decoder


def read(data: bytes) -> Any:
    return read_program(memoryview(data), "model.onnx")


def test_a_decoder_computes_what_the_module_does() -> None:
    program = read(exported("decoder"))
    module = Decoder(region=False)
    torch.manual_seed(3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    held = module.state_dict() | {"bias": module.bias}
    # A weight that is read in two ways stands in the file twice.
    weights = {one.path: held[one.path.removesuffix("_2")].detach() for one in program.weights}
    assert {path: tuple(value.shape) for path, value in weights.items()} == {
        one.path: one.meta.shape for one in program.weights
    }
    tokens = torch.randint(0, 20, (3, 7))
    (made,) = run_program(program, {"tokens": tokens}, weights, B=3, S=7)
    torch.testing.assert_close(made, module(tokens), rtol=1e-4, atol=1e-4)


def test_modules_are_those_of_the_code() -> None:
    program = read(exported("decoder"))
    modules = dict(program.modules)
    assert modules[""] == "Decoder"
    assert modules["layers"] == "ModuleList"
    assert modules["layers.1"] == "Layer"
    assert modules["layers.1.up"] == "Linear"
    linear = [call for call in program.calls if call.target == "aten.linear.default"]
    assert [call.module for call in linear] == [
        "layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head"
    ]  # fmt: skip
    assert [len(call.arguments) for call in linear] == [3, 3, 3, 3, 2]


def test_an_image_classifier_has_no_sequence() -> None:
    program = read(exported("classifier"))
    assert [str(one.meta) for one in program.inputs] == ["compute[B, 3, 8, 8]"]
    assert [str(call.results[0]) for call in program.calls][-1] == "compute[B, 5]"


def _model(nodes: list[Any], inputs: list[Any], tensors: list[Any] = [], opset: int = 20) -> bytes:  # noqa: B006
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()


def _x(*shape: int | str) -> Any:
    return helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))


def _external() -> bytes:
    tensor = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return _model([helper.make_node("MatMul", ["x", "w"], ["y"])], [_x("B", 4)], [tensor])


def _branch() -> bytes:
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "inner", [], [_x("B", 4)])
    return _model([helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)], [_x("B", 4)])


RELU = [helper.make_node("Relu", ["x"], ["y"])]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "model.onnx-broken"),
        (b"\x00\x01\x02 nothing", "model.onnx-broken"),
        (_model(RELU, [_x("B", 4)])[:-3], "model.onnx-broken"),
        (_external(), "model.onnx-external"),
        (_branch(), "model.onnx-operator"),
        (_model([helper.make_node("LSTM", ["x", "x", "x"], ["y"])], [_x("B", 4)]), "model.onnx-operator"),
        (_model(RELU, [_x("B", 4)], opset=9), "model.onnx-operator"),
        (_model([helper.make_node("Relu", ["z"], ["y"])], [_x("B", 4)]), "model.onnx-order"),
        (_model([helper.make_node("Relu", ["z"], ["y"]), helper.make_node("Relu", ["y"], ["z"])], [_x("B", 4)]),
         "model.onnx-order"),
        (_model([helper.make_node("Relu", ["x"], ["x"])], [_x("B", 4)]), "model.onnx-operator"),
        (_model(RELU, [_x("B", "S", "T")]), "model.onnx-input"),
        (_model(RELU, [_x("B", -4)]), "model.onnx-input"),
        (_model(RELU, [_x("B", 4), _x("B", 4)]), "model.onnx-input"),
        (_model([helper.make_node("Add", ["x", "z"], ["y"])],
                [_x("B", 4), helper.make_tensor_value_info("z", TensorProto.FLOAT, ["B", 5])]), "model.onnx-operator"),
        (_model(RELU, [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]), "model.onnx-input"),
    ],
)  # fmt: skip
def test_files_that_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(data)
    assert caught.value.code == code


def test_what_depends_on_data_is_named() -> None:
    model = one("Reshape", {"x": ("float32", ("B", 4)), "n": ("int64", (2,))}, {}, ["x", "n"], {})
    with pytest.raises(ModelError) as caught:
        read(model.SerializeToString())
    assert caught.value.code == "model.onnx-operator"
    assert "Reshape in m" in str(caught.value)
    assert "computed of data" in str(caught.value)


def test_sizes_agree_with_those_that_onnx_infers() -> None:
    model = onnx.load_from_string(exported("decoder"))
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    named = {"batch": 3, "seq": 7}
    known = {
        value.name: [dim.dim_value or named.get(dim.dim_param) for dim in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    bound = frozenset({("B", 3), ("S", 7)})
    program = read(exported("decoder"))
    compared = 0
    for call in program.calls:
        sizes = known.get(call.name)
        if sizes and None not in sizes:
            assert list(call.results[0].concrete(bound)) == sizes, call.name
            compared += 1
    assert compared > 20
