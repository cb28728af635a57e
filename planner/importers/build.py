"""From a checked config to its graph, whatever family it is of."""

from __future__ import annotations

from ..core.graph import ModelGraph
from .decoder import build_decoder
from .decoder_config import DecoderConfig, config_text
from .gpt2 import build_gpt2
from .gpt2_config import Gpt2Config, gpt2_text


def build_graph(config: DecoderConfig | Gpt2Config, name: str) -> ModelGraph:
    """Return the graph of a config; `name` is the graph's and its source's."""
    return build_gpt2(config, name) if isinstance(config, Gpt2Config) else build_decoder(config, name)


def text_of(config: DecoderConfig | Gpt2Config) -> str:
    """Return the canonical JSON of a config."""
    return gpt2_text(config) if isinstance(config, Gpt2Config) else config_text(config)
