"""Each row against the reference evaluator of onnx: the calls that torch runs give what the operator gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from planner.importers.onnx import read_program
from planner.importers.onnx.known import KNOWN
from planner.importers.onnx.read import ROWS
from tests.importers.onnx.files import one
from tests.importers.programs import run_program

SYMBOLS = {"B": 2, "S": 5}
X = {"x": ("float32", ("B", "S", 8))}
XY = X | {"y": ("float32", ("B", "S", 8))}
MASKS = {"x": ("bool", ("B", "S")), "y": ("bool", ("B", "S"))}
IMAGE = {"x": ("float32", ("B", 4, 6, 6))}
TOKENS = {"x": ("int64", ("B", "S"))}
HEADS = {name: ("float32", ("B", 4, "S", 8)) for name in "qkv"}


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def scalar(value: float) -> np.ndarray:
    return np.array(value, dtype=np.float32)


Case = tuple[str, Mapping[str, Any], Mapping[str, np.ndarray], Sequence[str], Mapping[str, Any]]
CASES: list[Case] = [
    *[(op, X, {}, ["x"], {}) for op in (
        "Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Erf", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign",
        "Reciprocal", "HardSwish", "Softsign", "Softplus", "Gelu", "Elu", "LeakyRelu", "HardSigmoid", "Identity",
        "IsNaN", "IsInf", "Mish",
    )],
    ("Gelu", X, {}, ["x"], {"approximate": "tanh"}), ("HardSigmoid", X, {}, ["x"], {"alpha": 1 / 6}),
    ("Sqrt", X, {"m.weight": floats(8)}, ["x"], {}), ("Log", X, {}, ["x"], {}),
    *[(op, XY, {}, ["x", "y"], {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Greater", "Less",
                                              "GreaterOrEqual", "LessOrEqual", "Equal")],
    *[(op, X, {"c": scalar(2.5)}, ["x", "c"], {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Greater", "Less")],
    *[(op, X, {"c": scalar(2.5)}, ["c", "x"], {})
      for op in ("Add", "Sub", "Mul", "Div", "Min", "Greater", "LessOrEqual", "Pow")],
    ("Pow", X, {"c": scalar(2.0)}, ["x", "c"], {}), ("Mod", TOKENS, {"c": ints(3)}, ["x", "c"], {}),
    *[(op, X, {"m.bias": floats(8)}, ["x", "m.bias"], {}) for op in ("Add", "Mul", "PRelu")],
    *[(op, MASKS, {}, ["x", "y"], {}) for op in ("And", "Or", "Xor")], ("Not", MASKS, {}, ["x"], {}),
    ("Where", XY | {"c": ("bool", ("B", "S", 1))}, {}, ["c", "x", "y"], {}),
    ("Where", X | {"c": ("bool", ("B", "S", 1))}, {"n": scalar(-1.5)}, ["c", "x", "n"], {}),
    ("Where", {"c": ("bool", ("B", "S"))}, {"n": scalar(-1.5), "p": scalar(2.0)}, ["c", "n", "p"], {}),
    ("Clip", X, {"low": scalar(-0.5), "high": scalar(0.5)}, ["x", "low", "high"], {}),
    ("Clip", X, {"high": scalar(0.5)}, ["x", "", "high"], {}),
    ("Cast", X, {}, ["x"], {"to": 7}), ("Cast", TOKENS, {}, ["x"], {"to": 1}), ("Dropout", X, {}, ["x"], {}),
    ("MatMul", X, {"m.weight": floats(8, 6)}, ["x", "m.weight"], {}),
    ("MatMul", HEADS, {}, ["q", "kt"], {}),
    ("Gemm", {"x": ("float32", ("B", 8))}, {"m.weight": floats(6, 8), "m.bias": floats(6)}, ["x", "m.weight", "m.bias"],
     {"transB": 1}),
    ("Gemm", {"x": ("float32", ("B", 8))}, {"m.weight": floats(8, 6), "m.bias": floats(6)}, ["x", "m.weight", "m.bias"],
     {}),
    ("Conv", IMAGE, {"m.weight": floats(5, 4, 3, 3), "m.bias": floats(5)}, ["x", "m.weight", "m.bias"],
     {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("Conv", IMAGE, {"m.weight": floats(4, 2, 3, 3)}, ["x", "m.weight"], {"group": 2, "dilations": [2, 1]}),
    ("Conv", {"x": ("float32", ("B", 4, "S"))}, {"m.weight": floats(5, 4, 3)}, ["x", "m.weight"], {"pads": [1, 1]}),
    ("ConvTranspose", IMAGE, {"m.weight": floats(4, 5, 3, 3)}, ["x", "m.weight"],
     {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ("MaxPool", IMAGE, {}, ["x"], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", IMAGE, {}, ["x"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("GlobalAveragePool", IMAGE, {}, ["x"], {}),
    ("LayerNormalization", X, {"m.weight": floats(8), "m.bias": floats(8)}, ["x", "m.weight", "m.bias"], {}),
    ("InstanceNormalization", IMAGE, {"m.weight": floats(4), "m.bias": floats(4)}, ["x", "m.weight", "m.bias"], {}),
    ("Softmax", X, {}, ["x"], {}), ("LogSoftmax", X, {}, ["x"], {"axis": 1}),
    ("Einsum", HEADS, {}, ["q", "k"], {"equation": "bhse,bhte->bhst"}),
    ("Resize", IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}, ["x", "", "s"],
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ("DepthToSpace", IMAGE, {}, ["x"], {"blocksize": 2, "mode": "CRD"}),
    ("Reshape", X, {"n": ints(0, -1, 4, 2)}, ["x", "n"], {}), ("Reshape", X, {"n": ints(-1, 8)}, ["x", "n"], {}),
    ("Flatten", IMAGE, {}, ["x"], {}), ("Flatten", X, {}, ["x"], {"axis": 2}),
    ("Transpose", X, {}, ["x"], {"perm": [1, 0, 2]}), ("Transpose", X, {}, ["x"], {}),
    ("Squeeze", {"x": ("float32", ("B", 1, 4))}, {"n": ints(1)}, ["x", "n"], {}),
    ("Unsqueeze", X, {"n": ints(1, -1)}, ["x", "n"], {}),
    ("Expand", {"x": ("float32", ("B", 1, 8))}, {"n": ints(1, 3, 8)}, ["x", "n"], {}),
    ("Concat", XY, {}, ["x", "y"], {"axis": -1}), ("Concat", XY, {}, ["x", "y"], {"axis": 1}),
    ("Slice", X, {"a": ints(1), "b": ints(7), "d": ints(2), "s": ints(2)}, ["x", "a", "b", "d", "s"], {}),
    ("Slice", X, {"a": ints(1, 0), "b": ints(2**62, -1), "d": ints(1, 2)}, ["x", "a", "b", "d"], {}),
    ("Gather", TOKENS, {"m.weight": floats(20, 8)}, ["m.weight", "x"], {}),
    ("Gather", X, {"n": np.array(1, np.int64)}, ["x", "n"], {"axis": 2}),
    ("Gather", X, {"n": ints(3, 1, 2)}, ["x", "n"], {"axis": 2}),
    ("Gather", X, {"n": np.array([[3, 1], [2, 0]], np.int64)}, ["x", "n"], {"axis": 2}),
    ("GatherElements", X | {"n": ("int64", ("B", "S", 1))}, {}, ["x", "n"], {"axis": 2}),
    ("ScatterElements", X | {"n": ("int64", ("B", "S", 1)), "u": ("float32", ("B", "S", 1))}, {}, ["x", "n", "u"],
     {"axis": 2}),
    ("ScatterElements", X | {"n": ("int64", ("B", "S", 1)), "u": ("float32", ("B", "S", 1))}, {}, ["x", "n", "u"],
     {"axis": 2, "reduction": "add"}),
    ("Pad", IMAGE, {"n": ints(0, 0, 1, 2, 0, 0, 0, 1), "v": scalar(1.5)}, ["x", "n", "v"], {}),
    ("Tile", X, {"n": ints(1, 1, 3)}, ["x", "n"], {}),
    *[(op, X, {"n": ints(-1)}, ["x", "n"], {"keepdims": 0})
      for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2")],
    ("ReduceMean", X, {}, ["x"], {}), ("ArgMax", X, {}, ["x"], {"axis": 2}),
    ("ArgMin", X, {}, ["x"], {"axis": -1, "keepdims": 0}), ("CumSum", X, {"n": np.array(1, np.int64)}, ["x", "n"], {}),
    ("Trilu", X, {}, ["x"], {"upper": 0}), ("Trilu", X, {"n": np.array(1, np.int64)}, ["x", "n"], {"upper": 1}),
    ("ConstantOfShape", {}, {"n": ints(3, 4)}, ["n"], {}),
    ("Range", {}, {name: np.array(value, np.int64) for name, value in (("a", 1), ("b", 90), ("s", 1))}, ["a", "b", "s"],
     {}),
    ("OneHot", TOKENS, {"n": np.array(20, np.int64), "v": np.array([0, 1], np.int64)}, ["x", "n", "v"], {}),
]  # fmt: skip
NEWER: list[Case] = [
    ("RMSNormalization", X, {"m.weight": floats(8)}, ["x", "m.weight"], {}),
    ("Attention", HEADS, {}, ["q", "k", "v"], {"is_causal": 1}),
]
SEVERAL: list[tuple[Case, int]] = [
    (("Split", X, {"n": ints(3, 5)}, ["x", "n"], {"axis": -1}), 2),
    (("Split", X, {}, ["x"], {"axis": 2, "num_outputs": 3}), 3),
    (("TopK", X, {"n": ints(3)}, ["x", "n"], {}), 2),
]
# What has no operator of one file here: batch statistics, which a file has of training, and forms of other exporters.
ELSEWHERE = {"BatchNormalization", "GroupNormalization", "SimplifiedLayerNormalization", "Swish"}


def _fed(inputs: Mapping[str, Any], names: Sequence[str], op: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    made = {}
    for name, (kind, shape) in inputs.items():
        sizes = [SYMBOLS.get(str(size), size) for size in shape]
        if kind == "int64":
            made[name] = rng.integers(0, 20 if op in {"Gather", "OneHot", "Cast", "Mod"} else 8, sizes)
        elif kind == "bool":
            made[name] = rng.integers(0, 2, sizes).astype(bool)
        else:
            values = rng.normal(size=sizes)
            made[name] = (np.abs(values) + 0.1 if op in {"Log", "Sqrt", "Pow"} else values).astype(np.float32)
    return made


def _check(case: Case, outputs: int, opset: int) -> None:
    op, inputs, tensors, order, attributes = case
    if "kt" in order:
        inputs = {"q": inputs["q"], "kt": ("float32", ("B", 4, 8, "S"))}
    model = one(op, inputs, tensors, order, attributes, outputs, opset)
    fed = _fed(inputs, order, op)
    expected = ReferenceEvaluator(model).run(None, fed)
    program = read_program(memoryview(model.SerializeToString()), op)
    weights = {}
    for weight in program.weights:
        array = torch.from_numpy(tensors[weight.path])
        weights[weight.path] = array if array.shape == weight.meta.shape else array.T
    made = run_program(program, {name: torch.from_numpy(array) for name, array in fed.items()}, weights, **SYMBOLS)
    for mine, right in zip(made, expected, strict=True):
        assert mine.shape == right.shape
        torch.testing.assert_close(mine, torch.from_numpy(np.asarray(right)), rtol=1e-4, atol=1e-5, check_dtype=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_row(case: Case) -> None:
    _check(case, 1, 20)


@pytest.mark.parametrize("case", NEWER, ids=lambda case: case[0])
def test_row_of_newer_versions(case: Case) -> None:
    _check(case, 1, 23)


@pytest.mark.parametrize(("case", "outputs"), SEVERAL)
def test_row_of_several_results(case: Case, outputs: int) -> None:
    _check(case, outputs, 20)


def test_every_row_is_tried() -> None:
    tried = {case[0] for case in (*CASES, *NEWER, *(case for case, _ in SEVERAL))}
    assert set(ROWS) - ELSEWHERE <= tried
    assert not ELSEWHERE & tried
    assert tried <= set(ROWS) | set(KNOWN)
