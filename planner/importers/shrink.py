"""The same architecture with other sizes, for proofs that run on a laptop."""

from __future__ import annotations

from dataclasses import replace

from ..core.graph import ModelGraph
from .build import build_graph, text_of
from .decoder_config import DecoderConfig
from .gpt2_config import Gpt2Config
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
    heads = kv_heads * group
    width = heads * head_dim if hidden is None else hidden
    if isinstance(config, Gpt2Config):
        small: DecoderConfig | Gpt2Config = replace(
            config, n_layer=layers, n_head=heads, n_embd=width, n_inner=ffn, vocab_size=vocab
        )
    else:
        small = replace(
            config,
            num_hidden_layers=layers,
            num_key_value_heads=kv_heads,
            num_attention_heads=heads,
            head_dim=head_dim,
            hidden_size=width,
            intermediate_size=ffn,
            vocab_size=vocab,
            experts=min(config.experts, 8),
            experts_per_token=min(config.experts_per_token, 2),
            expert_size=ffn if config.experts else 0,
            # Narrower than any sequence of a proof, so that the window matters there as it does in the model.
            sliding_window=None if config.sliding_window is None else min(config.sliding_window, 3),
        )
    # Through the text, so that sizes are checked where those of every config are.
    return build_graph(read_config(text_of(small), graph.name), graph.name)
