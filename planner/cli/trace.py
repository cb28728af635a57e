"""`shardwright trace`: a target such as `package.module:function` and example inputs → graph.

The code that is named runs here, with the rights of who types the command; a config or a name runs none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.graph import Block, ModelGraph, Node
from ..core.units import format_count
from ..errors import ModelError, PlannerError
from ..importers import load_code, load_model
from ..importers.example import read_example
from ..importers.watch import Watch
from .facts import facts


def traced(target: str, inputs: Sequence[str], *, output: str, loss: str, real: bool, watch: Watch) -> ModelGraph:
    """Return the graph of what a target names.

    Raises
    ------
    PlannerError
        `cli.trace-inputs`, and what loading and tracing raise.
    """
    if re.fullmatch(r"(?:[A-Za-z_][\w.]*|.+\.py):[A-Za-z_][\w.]*", target) is None:
        if inputs:
            raise PlannerError(
                "cli.trace-inputs", f"{target} says itself what its inputs are.", "Leave out --input.", subject=target
            )
        return load_model(target, output=output, loss=loss, watch=watch)
    examples = [read_example(text) for text in inputs]
    if not examples or len({bool(example.name) for example in examples}) > 1:
        what = "some inputs have names and some have none" if examples else "example inputs are needed"
        raise PlannerError(
            "cli.trace-inputs", f"To trace {target}, {what}.",
            "Give one for each, e.g. --input 'tokens=int64[B=8,S=2048]'.", subject=target,
        )  # fmt: skip
    watch.stage(0.0, f"importing {target}")
    return load_code(find(target), examples, target.rpartition(":")[2], output=output, loss=loss, real=real)


def find(target: str) -> Any:
    """Return what `package.module:name` or `file.py:name` names.

    Raises
    ------
    ModelError
        `model.module-failed` when importing it raises, `model.module-missing` when there is no such name.
    """
    home, _, name = target.rpartition(":")
    try:
        found: Any = _imported(home)
    except Exception as problem:
        raise ModelError(
            "model.module-failed", f"Importing {home} raised {type(problem).__name__}: {problem}.",
            "Run the command where Python can import it, or name a file.", subject=target,
        ) from problem  # fmt: skip
    for part in name.split("."):
        if not hasattr(found, part):
            raise ModelError(
                "model.module-missing", f"{home} has no {name}.", "Name a function or a class of it.", subject=target
            )
        found = getattr(found, part)
    return found


def trace_json(graph: ModelGraph) -> dict[str, Any]:
    """Return the answer for programs."""
    return {
        "model": asdict(facts(graph)),
        "inputs": {value.name: str(value.meta) for value in graph.root.inputs},
        "nodes": len(_nodes(graph.root)),
        "unknown": unknown(graph),
        "fixed": list(graph.fixed),
    }


def trace_text(graph: ModelGraph) -> str:
    """Return the answer for people."""
    nodes = len(_nodes(graph.root))
    repeats = [f"{repeat.name} × {repeat.count}" for repeat in graph.root.repeats]
    lines = [
        f"{graph.name}: {format_count(graph.parameter_count)} parameters ({graph.parameter_count:,}), {nodes} nodes",
        "inputs    " + ", ".join(f"{value.name} {value.meta}" for value in graph.root.inputs),
        *(["repeats   " + ", ".join(repeats)] if repeats else []),
        *(f"fixed     {sentence}" for sentence in graph.fixed),
        *(f"unknown   {target}: kept, and replicated" for target in unknown(graph)),
    ]
    return "\n".join(lines)


def unknown(graph: ModelGraph) -> list[str]:
    """Return the operators that no rule knows."""
    found = (dict(node.attributes).get("target", node.name) for node in _nodes(graph.root) if node.op == "unknown")
    return sorted({str(target) for target in found})


def _nodes(block: Block) -> list[Node]:
    """Return the nodes of a block and of those in it, each once."""
    inner: Iterable[Node] = (node for repeat in block.repeats for node in _nodes(repeat.block))
    return [*block.nodes, *inner]


def _imported(home: str) -> ModuleType:
    # As with `python -m`: what lies where the user stands comes first.
    sys.path.insert(0, str(Path.cwd()))
    if not home.endswith(".py"):
        return import_module(home)
    path = Path(home)
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {home}")
    sys.path.insert(0, str(path.parent.resolve()))
    module = module_from_spec(spec)
    # Where dataclasses and pickles look for it.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
