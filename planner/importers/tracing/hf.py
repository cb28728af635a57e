"""A `config.json` of any type that transformers knows → the program of its model with its loss.

Nothing is downloaded, no code but that of transformers runs, and no weights are made.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...core.graph import Feed
from ...core.json_text import JsonBounds, parse
from ...errors import ModelError
from ..aten.program import Program
from .buffers import SmallValues, to_meta
from .causes import building_failed, told
from .depth import restored, shortened
from .heads import HEADS, Head, Spec
from .trace import WithLoss, trace

BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=1 << 20, max_depth=32)
SAMPLES, LONGEST_SEQ = 6, 2048
"""Batch and sequence length of the example inputs; both stay symbols where the model lets them."""
STEP_BY_STEP = frozenset({"falcon_mamba", "jamba", "mamba", "recurrent_gemma", "rwkv", "xlstm"})
"""Types whose classes loop over the tokens in Python, so that a trace has a copy of the loop's body for each."""
STEPS = 16
"""Length of their example inputs, which the trace fixes."""
Stage = Callable[[float, str], None]


def trace_config(
    content: str, name: str, *, dtype: torch.dtype = torch.bfloat16, stage: Stage | None = None, quick: bool = True
) -> Program:
    """Return the program of the model that a config describes.

    Parameters
    ----------
    content
        What `canonical_config` returns.
    name
        Of the model, also in messages.
    dtype
        What the model computes in; it stands for the plan's element type.
    stage
        Called with the share that is done and what comes next.
    quick
        Whether equal layers of deep decoders may be copied rather than traced one by one.

    Raises
    ------
    ModelError
        `model.type-unknown`, `model.head-unknown`, `model.config-invalid`, or what `trace` raises.
    """
    tell = stage or (lambda done, text: None)
    values = parse(content, name, BOUNDS)
    assert isinstance(values, dict)
    try:
        return _traced(values, name, dtype, tell, quick=quick)
    except ModelError as problem:
        # Code that makes tensors of its own, in float32 whatever the model computes in.
        if dtype == torch.float32 or re.search(r"scalar type|[Dd]types? |same dtype", str(problem)) is None:
            raise
        program = _traced(values, name, torch.float32, tell, quick=quick)
        note = f"The model is traced in float32: {told(problem.__cause__ or problem)}."
        return replace(program, fixed=(note, *program.fixed))


def _traced(values: Mapping[str, Any], name: str, dtype: torch.dtype, tell: Stage, *, quick: bool = True) -> Program:
    tell(0.1, "building the model")
    model, head, notes = build_model(values, name, dtype)
    cut = shortened(model) if quick else None
    held = to_meta(model)
    inputs, dims = examples(head.inputs(model.config, type(model)), model.config, dtype)
    tell(0.2, "tracing it")
    program = trace(WithLoss(model, head.run), inputs, dims, name, values=held, compute=dtype)
    if cut is not None:
        whole = restored(program, *cut)
        if whole is None:
            return _traced(values, name, dtype, tell, quick=False)
        program = whole
    feeds = (Feed(name="labels", kind="next", next_of="tokens", ignored=-100),) if head.shifted else ()
    return replace(program, fixed=(*notes, *program.fixed), feeds=feeds)


def build_model(values: Mapping[str, Any], name: str, dtype: torch.dtype) -> tuple[Any, Head, tuple[str, ...]]:
    """Return the model of a config with parameters on the meta device and buffers as they are, its head, and notes."""
    # Before transformers is imported: it reads them once.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    import transformers
    from transformers import initialization
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.utils.logging import set_verbosity

    set_verbosity(logging.ERROR)
    kind = values["model_type"]
    if kind not in CONFIG_MAPPING:
        raise ModelError(
            "model.type-unknown", f"{name} is of the model type {kind!r}, which transformers {transformers.__version__}"
            " does not know.",
            "Give the module itself: shardwright trace package.module:function --input …",
        )  # fmt: skip
    head, class_name, notes = choose_head(kind, values.get("architectures"), name)
    try:
        given = {key: value for key, value in values.items() if key != "model_type"}
        kinds = CONFIG_MAPPING[kind]
        # JSON has no word for infinity; transformers writes it as an object.
        config = kinds.from_dict(kinds._decode_special_floats(given))
        _quiet(config)
        with SmallValues(), initialization.no_init_weights():
            model = getattr(transformers, class_name)._from_config(config, dtype=dtype)
        # Sharing is a part of what initialisation does.
        model.tie_weights()
    except Exception as problem:
        raise building_failed(problem, name) from problem
    return model, head, (*notes, *_train(model))


def choose_head(kind: str, architectures: object, name: str) -> tuple[Head, str, tuple[str, ...]]:
    """Return the head, the class and notes for a model type: the architecture's, else the first that it has."""
    from transformers.models.auto import modeling_auto

    rows: list[tuple[Head, str]] = []
    for head in HEADS.values():
        classes = getattr(modeling_auto, head.mapping).get(kind, ())
        rows += [(head, each) for each in ([classes] if isinstance(classes, str) else classes)]
    wanted = architectures[0] if isinstance(architectures, list) and architectures else None
    for head, class_name in rows:
        if class_name == wanted:
            return head, class_name, ()
    if not rows:
        raise ModelError(
            "model.head-unknown", f"{name} is of the model type {kind!r}, for which no loss is known.",
            "Give the module with its loss: shardwright trace package.module:function --input …",
        )  # fmt: skip
    head, class_name = rows[0]
    note = f"There is no loss for the architecture {wanted}; the model is planned as {class_name}." if wanted else ""
    return head, class_name, (note,) if note else ()


def examples(
    specs: Mapping[str, Spec], config: Any, dtype: torch.dtype
) -> tuple[dict[str, torch.Tensor], dict[str, tuple[str, ...]]]:
    """Return example inputs on the meta device, and their symbols."""
    longest = getattr(config.get_text_config(), "max_position_embeddings", None)
    seq = STEPS if config.model_type in STEP_BY_STEP else LONGEST_SEQ
    seq = min(seq, longest) if isinstance(longest, int) and longest > 1 else seq
    sizes = {"B": SAMPLES, "S": seq}
    inputs, dims = {}, {}
    for key, (shape, element) in specs.items():
        element = dtype if element.is_floating_point else element
        concrete = [sizes[n] if isinstance(n, str) else n for n in shape]
        inputs[key] = torch.zeros(concrete, dtype=element, device="meta")
        dims[key] = tuple(n if isinstance(n, str) else "" for n in shape)
    return inputs, dims


def _train(model: Any) -> tuple[str, ...]:
    """Set a model to training, apart from leaving out whole layers at random, and return a note on that."""
    model.train()
    # Which layers run is decided by a random number while the model runs, which no graph can hold.
    dropping = [part for part in model.modules() if "layerdrop" in _code(type(part).forward)]
    for part in dropping:
        part.training = False
    rates = [value for key, value in model.config.to_dict().items() if key.endswith("layerdrop") and value]
    return ("Every layer runs in every step: none is left out at random, as layerdrop would.",) if rates else ()


def _code(function: Any) -> tuple[str, ...]:
    """Return the names that a function's code uses."""
    return getattr(getattr(inspect.unwrap(function), "__code__", None), "co_names", ())


def _quiet(config: Any) -> None:
    """Set what makes a model give its logits alone, in this config and those within it."""
    for key in config.sub_configs:
        if getattr(config, key, None) is not None:
            _quiet(getattr(config, key))
    for key, value in {
        "use_cache": False, "return_dict": True, "output_router_logits": False, "output_attentions": False,
        "output_hidden_states": False, "use_mems_train": False, "apply_spec_augment": False,
    }.items():  # fmt: skip
        if hasattr(config, key):
            setattr(config, key, value)
