"""Finds out what a model source is, reads it, and hands it to its importer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.graph import ModelGraph, ModelSource
from ..core.json_text import digest, parse
from ..errors import ModelError
from .aten.program import Program
from .build import build_graph
from .bundled import bundled, bundled_as
from .example import Example
from .files import ONNX, PT2, kind_of, read_file
from .graph_json import KIND, with_source
from .graph_json.form import BOUNDS as GRAPH_BOUNDS
from .hf_config import BOUNDS, MAX_BYTES, read_config
from .tracer import tracer
from .transformers_config import canonical_config
from .watch import NOBODY, Watch
from .zoo_models import zoo_text

TRACED = frozenset(
    f"model.{what}-unsupported"
    for what in ("activation", "architecture", "attention-scale", "dense-layers", "dropout", "partial-rotary",
                 "quantization", "rope-scaling", "sliding-window")
)  # fmt: skip
"""What the direct builders refuse and the classes of transformers know."""
SUFFIXES = (".json", ".pt2", ".onnx")
"""What names of files end with; other names are of the zoo."""


def load_hf_config(text: str, name: str, watch: Watch = NOBODY, *, shown: str = "") -> ModelGraph:
    """Return the graph of the model that a Hugging Face `config.json` describes.

    The common decoders are built at once; every other type is traced, which needs torch and transformers.

    Parameters
    ----------
    text
        The file's text.
    name
        Name of the graph.
    watch
        Who is told how far a trace is, and may stop it.
    shown
        What to call the file in messages; by default `name`.

    Raises
    ------
    ModelError
        What `read_config` raises for the decoders that it knows, `canonical_config` and `Tracer.graph` for others.
    """
    found = load_at_once(text, name, shown=shown)
    return found if isinstance(found, ModelGraph) else tracer().graph(found.content, name, watch)


def load_at_once(text: str, name: str, *, shown: str = "") -> ModelGraph | ModelSource:
    """Return the graph of a config that need not be traced, else the source to trace.

    Parameters
    ----------
    text, name, shown
        As for `load_hf_config`.

    Raises
    ------
    ModelError
        As `load_hf_config`, apart from what tracing raises.
    """
    shown = shown or name
    try:
        return build_graph(read_config(text, shown), name)
    except ModelError as problem:
        if problem.code not in TRACED:
            raise
        values = parse(text, shown, BOUNDS)
        # A model type is what transformers knows classes by.
        if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
            raise
    content = canonical_config(values, shown)
    source = ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)
    return bundled(source) or source


def load_zoo(name: str) -> ModelGraph:
    """Return the graph of a model that comes along; reads no other file, whatever the name."""
    return bundled_as(name) or load_hf_config(zoo_text(name), name)


def load_bytes(
    data: bytes, name: str, watch: Watch = NOBODY, *, shown: str = "", output: str = "", loss: str = ""
) -> ModelGraph:
    """Return the graph of the model that a file holds, by what is in it.

    Parameters
    ----------
    data
        The file's bytes: a `config.json`, or what `files.FILES` reads.
    name
        Name of the graph.
    watch
        Who is told how far it is, and may stop it.
    shown
        What to call the file in messages, best with its suffix; by default `name`.
    output, loss
        What is trained, for a file that has no loss.

    Raises
    ------
    ModelError
        `model.too-large`, `model.file-unreadable`, or what the importer raises.
    """
    shown = shown or name
    kind = kind_of(data, Path(shown.strip("'\"")).suffix.lower())
    if kind:
        watch.stage(0.0, f"reading {shown}")
        return read_file(data, kind, Path(name).stem if Path(name).suffix == f".{kind}" else name, shown,
                         output=output, loss=loss)  # fmt: skip
    if output or loss:
        raise ModelError(
            "model.loss-output", f"{shown} says itself what its loss is.", "Leave output and loss out.", subject=shown
        )
    if len(data) > MAX_BYTES:
        raise ModelError(
            "model.too-large",
            f"{shown} is larger than {MAX_BYTES:,} bytes, so it is no config.json.",
            "Give the config, not the weights.",
            subject=shown,
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ModelError(
            "model.file-unreadable",
            f"{shown} is no UTF-8 text (byte {problem.start}).",
            "Save it as UTF-8.",
            subject=shown,
        ) from None
    return load_hf_config(text, name, watch, shown=shown)


def load_model(
    source: Any, example_inputs: Any = None, *, name: str = "", symbols: Mapping[str, Sequence[str]] | None = None,
    output: str = "", loss: str = "", watch: Watch = NOBODY,
) -> ModelGraph:  # fmt: skip
    """Return the graph of a model.

    Parameters
    ----------
    source
        A name from the zoo (`llama-3-8b`), the path of a `config.json` or of a folder that has one,
        the text of a `config.json` itself, the path of a `.pt2`, an `.onnx` or a graph's `.json`, or an `nn.Module`.
    example_inputs
        For a module: a tensor, tensors in order, or tensors by the names of the parameters of `forward`.
    name
        Of a module's graph; by default its class's.
    symbols
        For a module: which dims stay open.
    output, loss
        For a module, a `.pt2` or an `.onnx`: what the loss is; see `tracing.own.trace_module` and `files.read_file`.
    watch
        Who is told how far it is where that takes long, and may stop it.

    Raises
    ------
    ModelError
        `model.unknown-name`, `model.file-…`, `model.format-unsupported`, `model.source-unsupported`,
        or what `load_hf_config` and `load_own` raise.

    Examples
    --------
    >>> load_model("llama-3-8b").parameter_count
    8030261248
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        return load_own(
            source, () if example_inputs is None else example_inputs, name or type(source).__name__, symbols=symbols,
            output=output, loss=loss,
        )  # fmt: skip
    if not isinstance(source, str | PathLike):
        raise ModelError(
            "model.source-unsupported",
            f"A model can't be loaded from a {type(source).__name__}.",
            "Give a model's name, the path of a config.json, its text, or an nn.Module with example inputs.",
        )
    if not isinstance(source, str):
        return _load_file(Path(source), watch, output, loss)
    if source.lstrip().startswith("{"):
        return load_bytes(source.encode("utf-8", "replace"), "the config", watch, output=output, loss=loss)
    if source.endswith(SUFFIXES) or "/" in source or "\\" in source or source in {".", ".."}:
        return _load_file(Path(source), watch, output, loss)
    return load_zoo(source)


def load_own(
    module: Any, example_inputs: Any, name: str, *, symbols: Mapping[str, Sequence[str]] | None = None,
    output: str = "", loss: str = "",
) -> ModelGraph:  # fmt: skip
    """Return the graph of an `nn.Module`, with itself as its source, since its code does not travel with a plan.

    Parameters
    ----------
    module, example_inputs, symbols, output, loss
        As `tracing.own.trace_module` takes them.

    Raises
    ------
    ModelError
        What `trace_module` and `build` raise.
    """
    from .tracing.own import trace_module

    return _graph(trace_module(module, example_inputs, name, symbols=symbols, output=output, loss=loss))


def load_code(
    factory: Any, examples: Sequence[Example], name: str, *, output: str = "", loss: str = "", real: bool = False
) -> ModelGraph:
    """Return the graph of the module that a function of the user makes.

    Parameters
    ----------
    factory
        An `nn.Module`, its class, or a function without arguments that returns one.
    examples, output, loss, real
        As `tracing.own.trace_code` takes them.

    Raises
    ------
    ModelError
        `model.tracing-missing` without torch; what `trace_code` and `build` raise.
    """
    if find_spec("torch") is None:
        raise ModelError(
            "model.tracing-missing", f"{name} has to be traced, and torch is not installed.",
            "Add it with: pip install 'shardwright[torch]'.", subject=name,
        )  # fmt: skip
    from .tracing.own import trace_code

    return _graph(trace_code(factory, examples, name, output=output, loss=loss, real=real))


def _graph(program: Program) -> ModelGraph:
    from .aten.build import build

    source = ModelSource(name=program.name, kind=KIND, digest="", content="")
    return with_source(build(program, source, program.name))


def _load_file(path: Path, watch: Watch, output: str, loss: str) -> ModelGraph:
    if path.suffix in {".bin", ".safetensors"}:
        raise ModelError(
            "model.format-unsupported",
            f"{str(path)!r}: files of the kind {path.suffix} hold weights and no model.",
            "Give the model's config.json, a .pt2 file of torch.export.save, or an .onnx file.",
            subject=str(path),
        )
    try:
        file = path / "config.json" if path.is_dir() else path
        if not file.is_file():
            raise ModelError(
                "model.file-missing",
                f"There is no file {str(file)!r}.",
                "Give the path of a config.json, or a model's name without a slash.",
                subject=str(file),
            )
        # A config.json is called after the folder that holds it, as checkpoints are.
        name = (file.resolve().parent.name if file.name == "config.json" else file.stem) or file.stem
        with file.open("rb") as stream:
            kind = kind_of(stream.read(64), file.suffix.lower())
            stream.seek(0)
            if kind in {PT2, ONNX}:
                return read_file(stream, kind, name, repr(str(file)), output=output, loss=loss)
            # One byte more shows that there is more, however large the file.
            data = stream.read(GRAPH_BOUNDS.max_bytes + 1)
    except (OSError, ValueError) as problem:
        raise ModelError(
            "model.file-unreadable",
            f"{str(path)!r} can't be read: {getattr(problem, 'strerror', None) or problem}.",
            "Give the path of a readable config.json.",
            subject=str(path),
        ) from None
    return load_bytes(data, name, watch, shown=repr(str(file)), output=output, loss=loss)
