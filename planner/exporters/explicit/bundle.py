"""The files of a bundle: the model, the runtime modules that it needs, a training script and its launcher."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.resources import files

from ...core.assignment import TrainingGraph
from ...core.cluster import ClusterSpec
from ...core.plan import Decisions, Precision
from .classes import fold
from .distinct import Classes
from .program import containers, programs
from .script import step_text, write_script
from .write import Writer

_RUNTIME = "planner.exporters.runtime"
_NAMED = ("exchange", "parameters", "reshard", "steps", "uneven")
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
    model, root_class = _model(training, precision)
    train = write_script(training, decisions, precision, root_class)
    bundle = {
        "model.py": model,
        "train.py": train,
        "launch.sh": launcher(cluster),
        "plan.json": plan_text,
        "README.md": _readme(training, decisions, cluster),
    }
    return bundle | runtime_of((model, train))


def _model(training: TrainingGraph, precision: Precision) -> tuple[str, str]:
    """Return `model.py` and the name of the whole model's class."""
    assignment = training.assignment
    lists = containers(assignment.graph)
    own = [p.parameter.name for p in assignment.assemblies[0].parameters]
    tops = {
        index: fold(program, (*own, *(p.parameter.name for p in program.assembly.parameters)), lists)
        for index, program in enumerate(programs(training))
    }
    dtypes = {"compute": precision.compute, "gradient": precision.gradient}
    reserved = frozenset({"F", "Mesh", "nn", "ops", "torch"}.union(*map(_public, _NAMED)))
    written = Classes(reserved=reserved)
    for index in (*range(1, len(tops)), 0):
        writer = Writer(training=training, scope=index, tops=tops, class_names=written.names, dtypes=dtypes)
        wanted = _class_names(training, index)
        for module in writer.bodies:
            written.add(index, module, wanted[module], writer.write(module))
    text = "\n\n".join(written.texts())
    title = f"{assignment.graph.name} on the mesh {assignment.mesh}, one class per module."
    how = (
        "Every tensor is this rank's shard. Comments give the layout of each result and, above each resharding call,\n"
        "the plan's edge: the value, its layout, the layouts that its readers want, and the bytes passed."
    )
    header = f'"""{title}\n\n{how}\n"""\n\n' + _imports(text)
    return f"{header}\n\n{text}", written.names[0, ""]


def _class_names(training: TrainingGraph, index: int) -> dict[str, str]:
    """Return module path → class name; classes of a run that is one of several carry its layers."""
    assemblies = training.assignment.assemblies
    assembly = assemblies[index]
    several = sum(a.name == assembly.name for a in assemblies) > 1
    layers = assembly.layers
    suffix = f"{layers.first}To{layers.last}" if assembly.name and several else ""
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


def runtime_of(texts: Iterable[str]) -> dict[str, str]:
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


def launcher(cluster: ClusterSpec) -> str:
    """Return `launch.sh`."""
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
