"""Finds out what a model source is, reads it, and hands it to its importer."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from ..core.graph import ModelGraph
from ..errors import ModelError
from .build import build_graph
from .hf_config import MAX_BYTES, read_config
from .zoo_models import zoo_text


def load_hf_config(text: str, name: str) -> ModelGraph:
    """Return the graph of the model that a Hugging Face `config.json` describes.

    Parameters
    ----------
    text
        The file's text.
    name
        Name of the graph, and of the file in messages.
    """
    return build_graph(read_config(text, name), name)


def load_zoo(name: str) -> ModelGraph:
    """Return the graph of a model that comes along; reads no other file, whatever the name."""
    return load_hf_config(zoo_text(name), name)


def load_model(source: str | PathLike[str]) -> ModelGraph:
    """Return the graph of a model.

    Parameters
    ----------
    source
        A name from the zoo (`llama-3-8b`), the path of a `config.json` or of a folder that has one,
        or the text of a `config.json` itself.

    Raises
    ------
    ModelError
        `model.unknown-name`, `model.file-…`, `model.format-unsupported`, `model.source-unsupported`,
        or what `read_config` raises.

    Examples
    --------
    >>> load_model("llama-3-8b").parameter_count
    8030261248
    """
    if not isinstance(source, str | PathLike):
        raise ModelError(
            "model.source-unsupported",
            f"A model can't be loaded from a {type(source).__name__} yet.",
            "Give a model's name, the path of a config.json, or its text.",
        )
    if not isinstance(source, str):
        return _load_file(Path(source))
    if source.lstrip().startswith("{"):
        return load_hf_config(source, "the config")
    if source.endswith(".json") or "/" in source or "\\" in source or source in {".", ".."}:
        return _load_file(Path(source))
    return load_zoo(source)


def _load_file(path: Path) -> ModelGraph:
    if path.suffix in {".pt2", ".onnx", ".pt", ".pth", ".bin", ".safetensors"}:
        raise ModelError(
            "model.format-unsupported",
            f"{str(path)!r}: files of the kind {path.suffix} are not supported yet.",
            "Give the model's config.json.",
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
        with file.open("rb") as stream:
            # One byte more shows that there is more, however large the file.
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise ModelError(
            "model.file-unreadable",
            f"{str(path)!r} can't be read: {getattr(problem, 'strerror', None) or problem}.",
            "Give the path of a readable config.json.",
            subject=str(path),
        ) from None
    if len(data) > MAX_BYTES:
        raise ModelError(
            "model.too-large",
            f"{str(file)!r} is larger than {MAX_BYTES:,} bytes, so it is no config.json.",
            "Give the config, not the weights.",
            subject=str(file),
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ModelError(
            "model.file-unreadable",
            f"{str(file)!r} is no UTF-8 text (byte {problem.start}).",
            "Save it as UTF-8.",
            subject=str(file),
        ) from None
    # A config.json is called after the folder that holds it, as checkpoints are.
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return build_graph(read_config(text, repr(str(file))), name or file.stem)
