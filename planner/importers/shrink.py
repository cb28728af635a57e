"""The same architecture with other sizes, for proofs that run on a laptop."""

from __future__ import annotations

from dataclasses import replace

from ..core.graph import ModelGraph
from .decoder import build_decoder
from .decoder_config import config_text
from .hf_config import read_config


def shrunk(
    graph: ModelGraph,
    *,
    layers: int,
    kv_heads: int,
    group: int,
    head_dim: int,
    ffn: int,
    vocab: int,
    hidden: int | None = None,
) -> ModelGraph:
    """Return the graph with other sizes; operators, names, biases and ties are those of `graph`.

    Parameters
    ----------
    kv_heads, group
        Key/value heads, and query heads to each of them.
    hidden
        Width of the residual stream; as wide as all query heads together if it is not given.

    Raises
    ------
    ModelError
        When the sizes do not fit, as for a config.
    """
    config = read_config(graph.source.content, graph.name)
    small = replace(
        config,
        num_hidden_layers=layers,
        num_key_value_heads=kv_heads,
        num_attention_heads=kv_heads * group,
        head_dim=head_dim,
        hidden_size=kv_heads * group * head_dim if hidden is None else hidden,
        intermediate_size=ffn,
        vocab_size=vocab,
        # Narrower than any sequence of a proof, so that the window matters there as it does in the model.
        sliding_window=None if config.sliding_window is None else min(config.sliding_window, 3),
    )
    # Through the text, so that sizes are checked where those of every config are.
    return build_decoder(read_config(config_text(small), graph.name), graph.name)
