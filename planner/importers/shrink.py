"""The same architecture with other sizes, for proofs that run on a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..core.graph import Block, ModelGraph, ModelSource, Node, Repeat, Value
from ..core.json_text import canonical, parse
from ..core.layers import list_of, templates
from ..errors import ModelError
from .build import text_of
from .decoder_config import DecoderConfig
from .gpt2_config import Gpt2Config
from .hf_config import BOUNDS, read_config
from .modules import KIND as MODULE
from .sizes import Sizes, smaller
from .transformers_config import canonical_config


def way(source: ModelSource) -> str:
    """Return how a graph of this source is made smaller.

    `built` anew at other sizes, at once; `traced` anew at other sizes, which takes seconds; or by its `layers` alone.
    """
    if source.kind == MODULE:
        return "traced"
    if source.kind != "hf_config":
        return "layers"
    try:
        read_config(source.content, source.name)
    except ModelError:
        return "traced"
    return "built"


def smaller_content(source: ModelSource, sizes: Sizes) -> str | None:
    """Return the source of the same architecture with other sizes; None if a source of this kind has no sizes.

    Raises
    ------
    ModelError
        When the sizes do not fit, as for a config.
    """
    made = way(source)
    if made == "layers":
        return None
    if source.kind == MODULE:
        values = _object(source)
        arguments = values["arguments"]
        assert isinstance(arguments, dict)
        return canonical(values | {"arguments": smaller(arguments, sizes, str(values["module"]))})
    if made == "traced":
        values = _object(source)
        return canonical_config(smaller(values, sizes, str(values.get("model_type"))), source.name)
    small = _smaller_config(read_config(source.content, source.name), sizes)
    # Through the text, so that sizes are checked where those of every config are.
    return text_of(read_config(text_of(small), source.name))


def fewer_layers(graph: ModelGraph, layers: int) -> ModelGraph:
    """Return the graph with at most `layers` iterations of each repeated block; all sizes stay."""
    names: dict[str, str] = {}
    counts = {repeat.name: min(repeat.count, layers) for repeat in graph.root.repeats}
    for repeat in graph.root.repeats:
        path, range_of = list_of(repeat.name)
        if range_of is None:
            continue
        period, count = repeat.period, counts[repeat.name]
        shorter = replace(range_of, count=count * period)
        names[repeat.name] = f"{path}.{shorter}"
        names |= dict(zip(repeat.templates, templates(names[repeat.name], period), strict=True))
    root = _cut(_renamed(graph.root, names), {names.get(name, name): count for name, count in counts.items()})
    modules = tuple(replace(module, path=_new(module.path, names)) for module in graph.modules)
    return replace(graph, root=root, modules=modules)


def _cut(block: Block, counts: Mapping[str, int]) -> Block:
    body = tuple(item if isinstance(item, Node) else replace(item, count=counts[item.name]) for item in block.body)
    return replace(block, body=body)


def _renamed(block: Block, names: Mapping[str, str]) -> Block:
    """Return a block with other paths of layers in all names."""

    def new(name: str) -> str:
        return _new(name, names)

    def values(old: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(replace(value, name=new(value.name)) for value in old)

    body: list[Node | Repeat] = []
    for item in block.body:
        moved = replace(
            item, name=new(item.name), operands=tuple(map(new, item.operands)), results=values(item.results)
        )
        if isinstance(moved, Node):
            body.append(replace(moved, module=new(moved.module), origin=new(moved.origin)))
        else:
            body.append(replace(moved, block=_renamed(moved.block, names)))
    return Block(
        inputs=values(block.inputs), parameters=tuple(replace(p, name=new(p.name)) for p in block.parameters),
        body=tuple(body), outputs=tuple(map(new, block.outputs)),
    )  # fmt: skip


def _new(name: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        if name == old or (name.startswith(old) and name[len(old)] in "./:"):
            return new + name[len(old) :]
    return name


def _object(source: ModelSource) -> dict[str, object]:
    values = parse(source.content, source.name, BOUNDS)
    assert isinstance(values, dict)
    return values


def _smaller_config(config: DecoderConfig | Gpt2Config, sizes: Sizes) -> DecoderConfig | Gpt2Config:
    if isinstance(config, Gpt2Config):
        return replace(
            config, n_layer=sizes.layers, n_head=sizes.heads, n_embd=sizes.hidden, n_inner=sizes.ffn,
            vocab_size=sizes.vocab,
        )  # fmt: skip
    return replace(
        config,
        num_hidden_layers=sizes.layers,
        num_key_value_heads=sizes.kv_heads,
        num_attention_heads=sizes.heads,
        head_dim=sizes.head_dim,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.ffn,
        vocab_size=sizes.vocab,
        experts=min(config.experts, 8),
        experts_per_token=min(config.experts_per_token, 2),
        expert_size=sizes.ffn if config.experts else 0,
        # Narrower than any sequence of a proof, so that the window matters there as it does in the model.
        sliding_window=None if config.sliding_window is None else min(config.sliding_window, 3),
    )
