"""Files that want to run code, to fill the memory, or to lead elsewhere; and what each has to give."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

from planner.importers import load_model
from planner.importers.graph_json import write_graph
from tests.importers.onnx.files import exported
from tests.importers.pt2.archives import decoder_archive, members, with_graph, zipped
from tests.tiny import MODELS, SIZES

GRAPH = write_graph(load_model(json.dumps(SIZES | MODELS["llama"])))
ANY = "*"
"""A graph or one `ModelError`: what is changed may be what nobody reads."""


class Payload:
    """A pickle that writes a file when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def cases(mark: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield name, content and expected code of each file.

    Parameters
    ----------
    mark
        Path of the file that appears if a payload runs.
    """
    payload = pickle.dumps(Payload(mark))
    yield from _pickles(payload)
    yield from _archives(payload)
    yield "long.pt2", with_graph(decoder_archive(), _lengthen), "a graph"
    yield from _json()
    yield from _graphs()
    yield from _onnx()


def _pickles(payload: bytes) -> Iterator[tuple[str, bytes, str]]:
    parts = members(decoder_archive())
    for number, name in enumerate(sorted(parts)):
        yield f"pickle-in-{number:02}.pt2", zipped(parts | {name: payload}), ANY
    (config,) = (name for name in parts if name.endswith("constants_config.json"))
    changed = json.loads(parts[config])
    for entry in changed["config"].values():
        entry["use_pickle"] = True
    held = {name: payload for name in parts if "/constants/tensor_" in name}
    # The buffers' values are not read, so the graph can't be built.
    yield "pickle-by-config.pt2", zipped(parts | held | {config: json.dumps(changed).encode()}), "model.buffer-values"
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(3), "payload": Payload("/nowhere")}, file)
    yield "renamed.pt2", file.getvalue(), "model.archive-kind"
    yield "checkpoint.pt", file.getvalue(), "model.archive-kind"
    torch.save(torch.zeros(3), file := io.BytesIO(), _use_new_zipfile_serialization=False)
    yield "old-checkpoint.pt2", file.getvalue(), ANY
    yield "bare-pickle.pt2", payload, ANY


def _archives(payload: bytes) -> Iterator[tuple[str, bytes, str]]:
    archive = decoder_archive()
    parts = members(archive)
    (model,) = (name for name in parts if name.endswith("models/model.json"))
    zeros = bytes(64 << 20)
    bomb = zipped(parts | {model: zeros}, zipfile.ZIP_DEFLATED)
    yield "bomb.pt2", bomb, "model.too-large"
    small = zipped(parts | {model: bytes(40 << 20)}, zipfile.ZIP_DEFLATED)
    yield "ratio.pt2", small, "model.archive-ratio"
    # The directory says 1,000 bytes, the stream has 64 MiB.
    lie = bomb.replace(struct.pack("<L", 64 << 20), struct.pack("<L", 1000))
    yield "lying-size.pt2", lie, ANY
    huge = bytearray(archive)
    at = archive.rfind(b"PK\x05\x06")
    huge[at + 12 : at + 16] = struct.pack("<L", 1 << 31)
    if (large := archive.rfind(b"PK\x06\x06")) >= 0:
        huge[large + 40 : large + 48] = struct.pack("<Q", 1 << 31)
    yield "directory.pt2", bytes(huge), "model.archive-members"
    yield "cut.pt2", archive[: len(archive) // 2], "model.archive-broken"
    yield "empty.pt2", b"PK\x05\x06" + bytes(18), "model.archive-kind"
    for number, name in enumerate(
        ("../../evil", "/evil", "m/../../evil", "C:/evil", "m\\evil", "m//evil", "other/evil")
    ):
        yield f"path-{number}.pt2", zipped(parts | {name: payload}), "model.archive-members"
    file = io.BytesIO(archive)
    with zipfile.ZipFile(file, "a") as writer:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer.writestr(model, b"{}")
    yield "twice.pt2", file.getvalue(), "model.archive-members"
    yield "many.pt2", zipped({f"m/x{i}": b"" for i in range(50_001)}), "model.archive-members"
    yield "two-models.pt2", zipped(parts | {model.replace("model.json", "other.json"): b"{}"}), "model.archive-kind"
    yield "not-text.pt2", zipped(parts | {model: b"\xff\xfe{}"}), "model.archive-broken"
    yield "deep.pt2", zipped(parts | {model: b"[" * 100 + b"]" * 100}), "model.json-depth"
    yield "deeper.pt2", zipped(parts | {model: b"[" * 100_000}), "model.json-depth"
    many = json.loads(parts[model])
    many["graph_module"]["graph"]["nodes"] = []
    text = json.dumps(many).replace('"nodes": []', '"nodes": [' + "{}," * 9_999_999 + "{}]")
    yield "nodes.pt2", zipped(parts | {model: text.encode()}), "model.too-large"


def _lengthen(graph: Any) -> None:
    """Put some thousand calls behind the output, all of one operator in one module."""
    inner = graph["graph_module"]["graph"]
    last = inner["outputs"][0]["as_tensor"]["name"]
    meta = inner["tensor_values"][last]
    for number in range(6000):
        name = f"more_{number}"
        argument = {"name": "self", "arg": {"as_tensor": {"name": last}}, "kind": 1}
        inner["nodes"].append({
            "target": "torch.ops.aten.relu.default", "inputs": [argument], "outputs": [{"as_tensor": {"name": name}}],
            "metadata": {}, "name": name,
        })  # fmt: skip
        inner["tensor_values"][name] = meta
        last = name
    inner["outputs"][0]["as_tensor"]["name"] = last
    graph["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = last


def _json() -> Iterator[tuple[str, bytes, str]]:
    yield "deep.json", _with('"logits":' + "[" * 100 + "]" * 100), "model.json-depth"
    yield "deeper.json", _with('"logits":' + "[" * 100_000), "model.json-depth"
    nodes = '{"format":"shardwright-graph","root":{"body":[' + "[]," * 9_999_999 + "[]]}}"
    yield "nodes.json", nodes.encode(), "model.too-large"
    yield "values.json", _with('"logits":[' + "[]," * 4_000_000 + "[]]"), "model.too-large"
    yield "digits.json", _with('"longest_seq":' + "9" * 5000), "model.json-number"
    yield "infinite.json", _with('"longest_seq":1e999'), "model.json-number"
    yield "twice.json", _with('"logits":"a","logits":"b"'), "model.json-key"
    yield "half.json", _with('"logits":"\\ud800"'), "model.json-character"


def _with(entry: str) -> bytes:
    """Return a graph with one more entry."""
    return (GRAPH.replace('"logits":"lm_head",', "")[:-1] + f",{entry}}}").encode()


def _graphs() -> Iterator[tuple[str, bytes, str]]:
    def changed(change: Any) -> bytes:
        plain = json.loads(GRAPH)
        change(plain["root"])
        return json.dumps(plain).encode()

    def node(**fields: Any) -> Any:
        return lambda root: root["body"].insert(0, {"name": "x", "module": "", "operands": ["tokens"]} | fields)

    unknown = {"op": "unknown", "attributes": {"target": "aten.relu.default", "results": "int64[B, S]"}}
    yield "cycle.json", changed(lambda root: root["body"].reverse()), "model.graph-name"
    yield "negative.json", changed(lambda root: root["inputs"][0].__setitem__(1, "int64[B, -4]")), "model.graph-size"
    yield (
        "huge.json",
        changed(lambda root: root["inputs"][0].__setitem__(1, "int64[B, 999999999999, 999999999999]")),
        ("model.graph-size"),
    )
    yield "name.json", changed(lambda root: root["body"][0].__setitem__("name", "a';import os;'")), "model.graph-schema"
    for number, text in enumerate((
        "__import__('os').system('x')", "x0, f(x0)", "(" * 3000, "-" * 9000 + "1", "[" * 900 + "]" * 900,
        "x0.__class__", "x0 if x0 else x0", "lambda: x0", "'" * 3, "x0, *x0", "x0, **x0", "f'{x0}'",
    )):  # fmt: skip
        attributes = unknown["attributes"] | {"arguments": text}  # type: ignore[operator]
        yield f"call-{number:02}.json", changed(node(op="unknown", attributes=attributes)), "model.graph-operator"
    yield "target.json", changed(node(op="unknown", attributes={
        "target": "aten.relu.default(x); import os", "arguments": "x0", "results": "int64[B, S]",
    })), "model.graph-operator"  # fmt: skip
    yield "dtype.json", changed(node(op="full", operands=[], attributes={
        "sizes": "B, S", "value": 0.0, "dtype": "float32; import os",
    })), "model.graph-schema"  # fmt: skip
    for number, attributes in enumerate((
        {"sizes": "*".join(["B"] * 4000)}, {"sizes": ", ".join(["9" * 18] * 400)}, {"sizes": "B + " * 2000 + "S"},
    )):  # fmt: skip
        yield f"sizes-{number}.json", changed(node(op="reshape", attributes=attributes)), "model.graph-operator"


def _onnx() -> Iterator[tuple[str, bytes, str]]:
    good = exported("decoder")
    yield "nodes.onnx", _message(7, b"\x0a\x00" * 10_000_000) + _opset(), "model.too-large"
    yield "fields.onnx", _message(7, b"\x0a\x06" + b"\x0a\x00" * 3) * 1 + _opset() + b"\x08\x01" * 5_000_000, ANY
    yield "nested.onnx", _nested(200_000), ANY
    yield "cut.onnx", good[: len(good) // 2], "model.onnx-broken"
    yield "pickle.onnx", pickle.dumps(Payload("/nowhere")), ANY
    yield "length.onnx", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "model.onnx-broken"
    yield "varint.onnx", b"\xff" * 100, "model.onnx-broken"
    tensor = _message(1, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" * 4) + b"\x10\x01" + _message(8, b"w")
    yield "huge.onnx", _message(7, _message(5, tensor)) + _opset(), "model.onnx-broken"
    external = b"\x08\x04\x10\x01" + _message(8, b"w") + b"\x70\x01" + _message(
        13, _message(1, b"location") + _message(2, b"/etc/passwd"))  # fmt: skip
    yield "external.onnx", _message(7, _message(5, external)) + _opset(), "model.onnx-external"


def _message(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _opset() -> bytes:
    return _message(8, b"\x10\x14")


def _nested(depth: int) -> bytes:
    data = b""
    for _ in range(12):
        data = _message(5, _message(6, data))
    return _message(7, _message(1, data)) + _opset() + b"\x08\x01" * depth


def symbol_bombs() -> Iterator[tuple[str, bytes, str]]:
    """Yield archives whose sizes are expressions that grow, or that would run if they were evaluated."""
    for number, text in enumerate((
        "Pow(Symbol('s27'), Integer(999999999))", "(" * 500 + "s27" + ")" * 500, "9" * 4000,
        "*".join(["(s27 + s52)"] * 200), "__import__('os').system('x')", "Symbol('s27').__class__", "Max(s27, 3)",
        "-" * 3000 + "1", "s27**s27", "Add(" * 300, "Function('f')(1)",
    )):  # fmt: skip

        def change(graph: Any, text: str = text) -> None:
            sizes = graph["graph_module"]["graph"]["tensor_values"]["embedding"]["sizes"]
            sizes[0] = {"as_expr": {"expr_str": text}}

        yield f"symbol-{number:02}.pt2", with_graph(decoder_archive(), change), "model.archive-size"
