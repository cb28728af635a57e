"""A `config.json` of any model type, bounded and in canonical form; what tracing needs of it, without torch.

Only what shapes the model stays: where it came from, who wrote it and how it is stored do not. A file that names code
to run (`auto_map`) is read without it: the class is the one that transformers has for the model type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.json_text import canonical
from ..errors import ModelError
from .config_fields import shown

DROPPED = frozenset(
    {"_attn_implementation", "_commit_hash", "_experts_implementation", "_name_or_path", "attn_implementation",
     "auto_map", "custom_pipelines", "dtype", "gradient_checkpointing", "output_attentions", "output_hidden_states",
     "output_router_logits", "quantization_config", "return_dict", "return_dict_in_generate", "torch_dtype",
     "torchscript", "transformers.js_config", "transformers_version", "use_cache", "use_return_dict"}
)  # fmt: skip
"""Keys that say how a model is stored, called or shown, at any depth."""
LARGEST = 1 << 40
MOST_LAYERS = 1024
MOST_EXPERTS = 1 << 16
LONGEST_LIST = 4096


def canonical_config(values: Mapping[str, object], name: str) -> str:
    """Return the canonical text of a config.

    Parameters
    ----------
    values
        The JSON object, with a text as `model_type`.
    name
        What to call the config in messages.

    Raises
    ------
    ModelError
        `model.config-missing` without a model type, `model.config-bounds` for sizes that no model has.
    """
    if not isinstance(values.get("model_type"), str):
        raise ModelError(
            "model.config-missing", f"{name} has no model_type, which says what kind of model it is.",
            "Give what the model's config.json says, or an architecture that it names.",
        )  # fmt: skip
    kept = _without(values)
    assert isinstance(kept, dict)
    for path, value in _leaves("", kept):
        _check(path, value, name)
    return canonical(kept)


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without(inner) for key, inner in value.items() if key not in DROPPED}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(path, inner)


def _check(path: str, value: object, name: str) -> None:
    """Refuse what would only keep the machine busy; key names are those that transformers uses."""
    key = path.rpartition(".")[2]
    if isinstance(value, list | dict) and len(value) > LONGEST_LIST and key not in {"id2label", "label2id"}:
        raise _out(name, path, f"has {len(value):,} entries", LONGEST_LIST)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if abs(value) > LARGEST and not isinstance(value, float):
        raise _out(name, path, f"is {shown(value)}", LARGEST)
    counts_layers = "layer" in key and ("num" in key or key.startswith("n_") or key.endswith("layers"))
    if (counts_layers or key in {"depths", "n_blocks", "num_blocks"}) and value > MOST_LAYERS:
        raise _out(name, path, f"is {shown(value)}", MOST_LAYERS)
    if "expert" in key and ("num" in key or key.startswith("n_")) and value > MOST_EXPERTS:
        raise _out(name, path, f"is {shown(value)}", MOST_EXPERTS)


def _out(name: str, path: str, what: str, most: int) -> ModelError:
    return ModelError(
        "model.config-bounds", f"In {name}, {path} {what}, and at most {most:,} is traced.",
        "Write what the model has.", subject=path,
    )  # fmt: skip
