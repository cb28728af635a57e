"""Which keys of configs and which arguments of own modules are sizes of what: the table that proofs shrink models by.

The names are those that transformers gives to sizes in its configs, whatever the model type; keys that mean something
else in one type are in `OF_TYPE`. What is in neither stays as the model has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes that a small model is to have.

    Parameters
    ----------
    kv_heads, group
        Key/value heads, and query heads to each of them.
    hidden
        Width of the residual stream.
    """

    layers: int
    kv_heads: int
    group: int
    head_dim: int
    ffn: int
    vocab: int
    hidden: int

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.kv_heads * self.group


Chosen = Callable[[Sizes, int], int]
"""Wanted sizes and what the model has → what the small one gets."""


def _at_most(size: int) -> Chosen:
    return lambda _, now: min(now, size)


def _layers(sizes: Sizes, now: int) -> int:
    return min(now, sizes.layers)


_ROWS: tuple[tuple[tuple[str, ...], Chosen], ...] = (
    (
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "num_encoder_layers",
         "encoder_layers", "decoder_layers", "depths", "depth", "blocks"),
        _layers,
    ),
    (
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads", "heads"),
        lambda sizes, _: sizes.heads,
    ),
    (("num_key_value_heads", "num_kv_heads", "n_head_kv"), lambda sizes, _: sizes.kv_heads),
    (
        ("head_dim", "d_kv", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "attention_head_dim"),
        lambda sizes, _: sizes.head_dim,
    ),
    (("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "width", "hidden_sizes", "widths", "context",
      "word_embed_proj_dim"),
     lambda sizes, _: sizes.hidden),
    (
        ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim",
         "moe_intermediate_size", "shared_expert_intermediate_size", "hidden_dim", "bottom", "top"),
        lambda sizes, _: sizes.ffn,
    ),
    (("q_lora_rank", "kv_lora_rank"), lambda sizes, _: 2 * sizes.head_dim),
    (("vocab_size", "vocab", "rows"), lambda sizes, now: min(now, sizes.vocab)),
    (("num_experts", "num_local_experts", "n_routed_experts"), _at_most(8)),
    (("num_experts_per_tok", "moe_topk", "first_k_dense_replace", "n_group", "num_experts_per_token"), _at_most(2)),
    (("topk_group", "n_shared_experts", "ratio"), _at_most(1)),
    # Narrower than any sequence of a proof, so that the window matters there as it does in the model.
    (("sliding_window", "attention_window", "window_size"), _at_most(3)),
    (
        ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len",
         "relative_attention_max_distance"),
        _at_most(64),
    ),
    (("max_source_positions", "text"), _at_most(8)),
    (("num_mel_bins",), _at_most(8)),
    (("classes", "num_labels"), _at_most(24)),
    (("size",), _at_most(8)),
    (("image",), _at_most(32)),
    (("seq",), _at_most(12)),
    (("chunk",), _at_most(4)),
    (("state",), _at_most(6)),
    (("groups",), _at_most(4)),
)  # fmt: skip
KEYS: Mapping[str, Chosen] = MappingProxyType({key: chosen for keys, chosen in _ROWS for key in keys})
OF_TYPE: Mapping[tuple[str, str], Chosen] = MappingProxyType(
    {
        # The width of Mamba's heads is its own, and has to divide what the stream is widened to.
        ("mamba2", "heads"): lambda sizes, _: 2 * sizes.hidden // sizes.head_dim,
        ("opt", "word_embed_proj_dim"): lambda sizes, _: sizes.hidden,
    }
)
"""Keys of single types: (model type or module, key)."""


def smaller(values: Mapping[str, object], sizes: Sizes, kind: str) -> dict[str, object]:
    """Return a config, or the arguments of a module, with smaller sizes; objects within are made smaller alike.

    Parameters
    ----------
    kind
        Model type, or name of the module.
    """
    count = _layers_of(values, sizes)
    sized = Sizes(**{name: getattr(sizes, name) for name in Sizes.__dataclass_fields__} | {"layers": count})
    found = {
        key: smaller(value, sizes, kind) if isinstance(value, dict) and key.endswith("_config")
        else _value(key, value, sized, kind)
        for key, value in values.items()
    }  # fmt: skip
    if isinstance(layers := found.get("layer_types"), list):
        found["layer_types"] = layers[:count]
    if isinstance(size := found.get("image_size"), int) and isinstance(patch := found.get("patch_size"), int):
        # Two patches a side after all stages, each of which halves the sides.
        stages = found.get("depths")
        found["image_size"] = min(size, patch * 2 ** (len(stages) if isinstance(stages, list) else 1))
    return found


def _layers_of(values: Mapping[str, object], sizes: Sizes) -> int:
    """Return how many layers show every kind of layer that the model has."""
    count = sizes.layers
    if isinstance(kinds := values.get("layer_types"), list):
        wanted = {str(kind) for kind in kinds}
        while count < len(kinds) and {str(kind) for kind in kinds[:count]} != wanted:
            count += 1
    if isinstance(dense := values.get("first_k_dense_replace"), int):
        count += min(dense, 2)
    return count


def _value(key: str, value: object, sizes: Sizes, kind: str) -> object:
    chosen = OF_TYPE.get((kind, key)) or KEYS.get(key)
    if chosen is None:
        return value
    if isinstance(value, list | tuple):
        return [chosen(sizes, v) if type(v) is int else v for v in value]
    return chosen(sizes, value) if type(value) is int else value
