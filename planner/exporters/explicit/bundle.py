"""The files of a bundle: the model, the runtime modules that it needs, a training script and its launcher."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from ...core.assignment import TrainingGraph
from ...core.cluster import ClusterSpec
from ...core.code import CodeMark
from ...core.plan import Decisions, Precision
from .classes import fold
from .distinct import Classes
from .marks import Span, shifted
from .parts import Part, parts
from .program import containers, programs
from .script import step_text, write_script
from .write import Writer

MODEL = "model.py"
_RUNTIME = "planner.exporters.runtime"
_NAMED = ("exchange", "parameters", "recompute", "reshard", "steps", "uneven")
"""Modules of which a model imports single names."""


def export_bundle(
    training: TrainingGraph, decisions: Decisions, precision: Precision, cluster: ClusterSpec, plan_text: str
) -> dict[str, str]:
    """Return the bundle of a plan as path → text; the same plan gives the same text.

    Parameters
    ----------
    plan_text
        The plan file, which the bundle carries as `plan.json`.
    """
    model = _model(training, precision)
    train = write_script(training, decisions, precision, model.classes[0])
    bundle = {
        MODEL: model.text,
        "train.py": train,
        "launch.sh": _launch(cluster),
        "plan.json": plan_text,
        "README.md": _readme(training, decisions, cluster),
    }
    return bundle | _runtime((model.text, train))


def mark_bundle(training: TrainingGraph, precision: Precision) -> tuple[CodeMark, ...]:
    """Return which lines stand for which nodes and edges of the plan's view, in the order of the lines."""
    spans = sorted(_model(training, precision).spans, key=lambda span: span.first)
    return tuple(
        CodeMark(path=MODEL, first=span.first + 1, last=span.last + 1, nodes=span.nodes, edges=span.edges)
        for span in spans
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """`model.py`, the names of the classes of the whole model or of its stages, and what the lines stand for."""

    text: str
    classes: tuple[str, ...]
    spans: tuple[Span, ...]


def _model(training: TrainingGraph, precision: Precision) -> _Model:
    assignment = training.assignment
    dtypes = {"compute": precision.compute, "gradient": precision.gradient}
    reserved = frozenset({"F", "Mesh", "nn", "ops", "torch"}.union(*map(_public, _NAMED)))
    written = Classes(reserved=reserved)
    classes = tuple(_add(written, part, dtypes) for part in parts(training))
    texts = list(written.texts())
    text = "\n\n".join(each for each, _ in texts)
    title = f"{assignment.graph.name} on the mesh {assignment.mesh}, one class per module."
    how = (
        "Every tensor is this rank's shard. Comments give the layout of each result and, above each resharding call,\n"
        "the plan's edge: the value, its layout, the layouts that its readers want, and the bytes passed."
    )
    header = f'"""{title}\n\n{how}\n"""\n\n{_imports(text)}\n\n'
    spans: list[Span] = []
    before = header.count("\n")
    for each, found in texts:
        spans += shifted(found, before)
        before += each.count("\n") + 2
    return _Model(text=header + text, classes=classes, spans=tuple(spans))


def _add(written: Classes, part: Part, dtypes: Mapping[str, str]) -> str:
    """Write the classes of a part, and return the name of that of its top."""
    training, names = part.training, written.begin()
    lists = containers(training.assignment.graph)
    own = [p.parameter.name for p in training.assignment.assemblies[0].parameters]
    tops = {
        index: fold(program, (*own, *(p.parameter.name for p in program.assembly.parameters)), lists)
        for index, program in enumerate(programs(training))
    }
    for index in (*range(1, len(tops)), 0):
        writer = Writer(
            training=training, scope=index, tops=tops, class_names=names, dtypes=dtypes, marked=part.marked,
            title="the whole model" if part.number is None else f"stage {part.number} of the model",
        )  # fmt: skip
        wanted = _class_names(part, index)
        for module in writer.bodies:
            written.add(index, module, wanted[module], writer.write(module))
    return names[0, ""]


def _class_names(part: Part, index: int) -> dict[str, str]:
    """Return module path → class name; classes of a run that is one of several carry its layers, others a stage's."""
    training = part.training
    assemblies = training.assignment.assemblies
    assembly = assemblies[index]
    several = sum(a.name == assembly.name for a in assemblies) > 1
    layers = assembly.layers
    suffix = f"{layers.first}To{layers.last}" if assembly.name and several else ""
    if not assembly.name and part.number is not None:
        suffix = f"Stage{part.number}"
    return {module.path: module.class_name + suffix for module in training.assignment.graph.modules}


def _imports(text: str) -> str:
    """Return the import lines that a model's text needs."""
    lines = ["import torch"]
    if "F." in text:
        lines.append("import torch.nn.functional as F")
    lines += ["from torch import nn", ""]
    if "ops." in text:
        lines.append("from parallel import operators as ops")
    optional = ("indexing", "ordered", "reductions", "windows")
    lines += [f"from parallel import {module}" for module in optional if f"{module}." in text]
    lines.append("from parallel.mesh import Mesh")
    for module in _NAMED:
        used = [name for name in _public(module) if f"{name}(" in text or f"({name}):" in text]
        if used:
            lines.append(f"from parallel.{module} import {', '.join(used)}")
    return "\n".join(lines) + "\n"


def _public(module: str) -> list[str]:
    tree = ast.parse(_source(module))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return sorted(node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_"))


def _source(module: str) -> str:
    return files(_RUNTIME).joinpath(f"{module}.py").read_text("utf-8")


def _runtime(texts: Iterable[str]) -> dict[str, str]:
    """Return the runtime modules that these files import, directly or through each other."""
    wanted: set[str] = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "parallel":
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("parallel."):
                wanted.add((node.module or "").removeprefix("parallel."))
    sources: dict[str, str] = {}
    while wanted - sources.keys():
        name = min(wanted - sources.keys())
        sources[name] = _source(name)
        wanted |= {
            node.module
            for node in ast.walk(ast.parse(sources[name]))
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        }
    sources["__init__"] = _source("__init__")
    return {f"parallel/{name}.py": text for name, text in sorted(sources.items())}


def _launch(cluster: ClusterSpec) -> str:
    return (
        "#!/usr/bin/env bash\n"
        f"# Start on every node; NODE_RANK and MASTER_ADDR tell nodes apart ({cluster.name}).\n"
        "set -euo pipefail\n"
        'cd "$(dirname "$0")"\n'
        "exec torchrun \\\n"
        f'    --nnodes "${{NNODES:-{cluster.nodes}}}" \\\n'
        f'    --nproc-per-node "${{NPROC_PER_NODE:-{cluster.devices_per_node}}}" \\\n'
        '    --node-rank "${NODE_RANK:-0}" \\\n'
        '    --master-addr "${MASTER_ADDR:-127.0.0.1}" \\\n'
        '    --master-port "${MASTER_PORT:-29500}" \\\n'
        '    train.py "$@"\n'
    )


def _readme(training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec) -> str:
    graph = training.assignment.graph
    return (
        f"# {graph.name} on {cluster.name}\n\n"
        f"Mesh `{decisions.mesh}`, {step_text(training, decisions)}. Needs PyTorch and nothing else.\n\n"
        "```bash\n./launch.sh --steps 20\n```\n\n"
        "- `model.py`: the model on local shards. Each `reshard` or `fan_out` is one edge of the plan, named in the\n"
        "  comment above it with its layouts and bytes.\n"
        "- `parallel/`: the runtime, plain `torch.distributed`.\n"
        "- `train.py`: AdamW on local shards and synthetic data; `--dtype float64` for comparisons.\n"
        "- `plan.json`: the decisions that this was written from; open it with `shardwright evaluate plan.json`.\n\n"
        "Parameter names are those of the original model, so its checkpoints can be cut into shards with\n"
        "`parallel.layout.shard`.\n"
    )
