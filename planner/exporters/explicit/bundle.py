"""The files of a bundle: the model, the runtime modules that it needs, a training script, and what starts it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ...core.assignment import TrainingGraph
from ...core.code import CodeMark
from ...core.evaluated import EvaluatedPlan
from ...core.plan import Precision
from ...core.python_text import parsed
from .classes import fold
from .distinct import Classes
from .launch import launch_files
from .marks import Span, shifted
from .parts import Part, parts
from .program import containers, programs
from .readme import write_readme
from .script import write_script
from .stages import STAGES, stage_spans, write_stages
from .write import Writer

MODEL = "model.py"
_RUNTIME = "planner.exporters.runtime"
_NAMED = ("exchange", "parameters", "recompute", "reshard", "steps", "uneven")
"""Modules of which a model imports single names."""


def export_bundle(plan: EvaluatedPlan) -> dict[str, str]:
    """Return the bundle of a plan as path → text; the same plan gives the same text."""
    model = _model(plan.training, plan.precision)
    train = write_script(plan, model.classes)
    stages = write_stages(plan, model.classes)
    bundle = {
        MODEL: model.text,
        "train.py": train,
        "plan.json": plan.text,
        "README.md": write_readme(plan.training, plan.decisions, plan.cluster),
    }
    launch = launch_files(plan.training.assignment.graph.name, plan.cluster)
    code = (text for name, text in ({MODEL: model.text, "train.py": train} | stages).items() if name.endswith(".py"))
    return bundle | stages | launch | runtime_of(code)


def mark_bundle(plan: EvaluatedPlan) -> tuple[CodeMark, ...]:
    """Return which lines stand for which nodes and edges of the plan's view, in the order of files and lines."""
    model = _model(plan.training, plan.precision)
    spans = [(MODEL, span) for span in sorted(model.spans, key=lambda span: span.first)]
    spans += [(STAGES, span) for span in stage_spans(plan, model.classes)]
    return tuple(
        CodeMark(path=path, first=span.first + 1, last=span.last + 1, nodes=span.nodes, edges=span.edges)
        for path, span in spans
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """`model.py`, the names of the classes of the whole model or of its stages, and what the lines stand for."""

    text: str
    classes: tuple[str, ...]
    spans: tuple[Span, ...]


def stage_text(training: TrainingGraph, precision: Precision, stage: int) -> tuple[str, str]:
    """Return the text of one stage of a model with nothing of the others, and the name of its class."""
    model = _model(training, precision, stage)
    return model.text, model.classes[0]


def _model(training: TrainingGraph, precision: Precision, stage: int | None = None) -> _Model:
    """Return the text of all parts, or of one stage alone."""
    assignment = training.assignment
    dtypes = {"compute": precision.compute, "gradient": precision.gradient}
    reserved = frozenset({"F", "Mesh", "nn", "ops", "torch"}.union(*map(_public, _NAMED)))
    written = Classes(reserved=reserved)
    classes = tuple(_add(written, part, dtypes) for part in parts(training) if stage in {None, part.number})
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
    named = ["from parallel.mesh import Mesh"]
    for module in _NAMED:
        used = [name for name in _public(module) if f"{name}(" in text or f"({name}):" in text]
        if used:
            named.append(f"from parallel.{module} import {', '.join(used)}")
    return "\n".join([*lines, *sorted(named)]) + "\n"


@cache
def _public(module: str) -> tuple[str, ...]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = (node.name for node in parsed(_source(module)).body if isinstance(node, kinds))
    return tuple(sorted(name for name in names if not name.startswith("_")))


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the runtime modules that a runtime module imports."""
    nodes = ast.walk(parsed(_source(module)))
    return frozenset(
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
    )


@cache
def _source(module: str) -> str:
    return files(_RUNTIME).joinpath(f"{module}.py").read_text("utf-8")


def runtime_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the runtime modules that these files import, directly or through each other."""
    wanted: set[str] = set()
    for text in texts:
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "parallel":
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("parallel."):
                wanted.add((node.module or "").removeprefix("parallel."))
    sources: dict[str, str] = {}
    while wanted - sources.keys():
        name = min(wanted - sources.keys())
        sources[name] = _source(name)
        wanted |= _imported(name)
    sources["__init__"] = _source("__init__")
    return {f"parallel/{name}.py": text for name, text in sorted(sources.items())}
