"""The truth of the zoo: `python -m benchmarks.zoo.table [NAME …]` writes docs/reference/zoo.json, then zoo.md from it.

Every model is counted at 2 samples of 128 tokens, or of what it fixes. Torch's numbers are kept in the JSON file, so
that the page can be written again, and compared in a test, without torch. Where a model has equal layers, torch counts
it with few of them and with one more of each kind: the difference is one layer, and as many make up the model.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.importers import zoo_names

from .page import PAGE, TRUTH, page

BATCH, SEQ = 2, 128
COUNTED = ("forward", "products", "backward", "kept", "attention")
"""The whole model's forward FLOPs; of one layer, or of the whole: products but attention's, and bytes."""


def few(name: str) -> tuple[dict[str, Any], dict[str, Any], int] | None:
    """Return changes of the config for few layers and for one more of each kind, and how often the model has those."""
    from planner.importers.zoo_models import zoo_text

    values = json.loads(zoo_text(name))
    if "module" in values:
        depth = values["arguments"].get("depth")
        return None if depth is None else ({"depth": 1}, {"depth": 2}, depth - 1)
    kind = values["model_type"]
    if kind == "convnext":
        return None
    if kind == "gpt2":
        return {"n_layer": 1}, {"n_layer": 2}, values["n_layer"] - 1
    if kind == "t5":
        small, more = ({"num_layers": n, "num_decoder_layers": n} for n in (1, 2))
        return small, more, values["num_layers"] - 1
    if kind == "whisper":
        small, more = ({"encoder_layers": n, "num_hidden_layers": n, "decoder_layers": n} for n in (1, 2))
        return small, more, values["encoder_layers"] - 1
    total = values["num_hidden_layers"]
    if kind == "gpt_oss":
        types = values["layer_types"]
        small, more = ({"num_hidden_layers": n, "layer_types": types[:n]} for n in (2, 4))
        return small, more, total // 2 - 1
    if kind == "deepseek_v3":
        return {"num_hidden_layers": 4}, {"num_hidden_layers": 5}, total - 4
    return {"num_hidden_layers": 1}, {"num_hidden_layers": 2}, total - 1


def torch_row(name: str) -> dict[str, float]:
    """Return torch's numbers of a model."""
    import torch

    from .torch_counts import forward_flops, joint, model_and_inputs, parameters, with_fused_norms

    def counted(change: dict[str, Any]) -> tuple[float, ...]:
        model, inputs = model_and_inputs(name, BATCH, SEQ, torch.bfloat16, change)
        forward = forward_flops(model, inputs)
        found = joint(with_fused_norms(model), inputs)
        return forward, found.forward, found.backward, found.kept, found.attention

    whole, _ = model_and_inputs(name, BATCH, SEQ, torch.bfloat16, {})
    row: dict[str, float] = {"parameters": parameters(whole)}
    changes = few(name)
    if changes is None:
        return row | dict(zip(COUNTED, counted({}), strict=True))
    small, more = counted(changes[0]), counted(changes[1])
    layer = dict(zip(COUNTED, (b - a for a, b in zip(small, more, strict=True)), strict=True))
    return row | layer | {"forward": small[0] + changes[2] * layer["forward"]}


def main(names: list[str]) -> None:
    """Write torch's numbers of the named models, and the page."""
    truth = json.loads(TRUTH.read_text("utf-8")) if TRUTH.is_file() else {}
    for name in names:
        try:
            truth[name] = torch_row(name)
            print(name, truth[name], flush=True)
        except Exception as problem:
            print(name, type(problem).__name__, str(problem)[:300], flush=True)
            continue
        TRUTH.write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(page(truth), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(zoo_names()))
