"""ONNX files of one operator, and of small modules as torch's exporter writes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.export import Dim

from tests.importers.pt2.archives import IMAGES, TOKENS, Classifier, Decoder

ELEMENTS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


def one(
    op: str, inputs: Mapping[str, tuple[str, Sequence[int | str]]], tensors: Mapping[str, np.ndarray],
    order: Sequence[str], attributes: Mapping[str, Any], outputs: int = 1, opset: int = 20,
) -> onnx.ModelProto:  # fmt: skip
    """Return a model of one operator, in a module `m`.

    Parameters
    ----------
    inputs
        Name → element type and shape.
    tensors
        Weights and constants of the file.
    order
        Names of the operator's inputs; empty for one that is left out.
    """
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(order), names, name=f"/m/{op}", **attributes)
    graph = helper.make_graph(
        [node], "graph",
        [helper.make_tensor_value_info(name, ELEMENTS[kind], list(shape)) for name, (kind, shape) in inputs.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in names],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return with_outputs(model)


def with_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose outputs have the types that onnx infers."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        value.ClearField("type")
    inferred = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        value.type.CopyFrom(known.type)
    return model


@cache
def exported(name: str) -> bytes:
    """Return a file of torch's exporter."""
    module: nn.Module = Decoder(region=False) if name == "decoder" else Classifier()
    example = TOKENS if name == "decoder" else IMAGES
    dims = {0: Dim("batch"), 1: Dim("seq")} if name == "decoder" else {0: Dim("batch")}
    torch.manual_seed(3)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=(dims,), verbose=False)
    assert program is not None
    return program.model_proto.SerializeToString()
