"""Covers: tracing.buffers: what a model built without weights holds equals what one built with them does."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import initialization  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

from benchmarks.sweep_transformers import default_config  # noqa: E402
from planner.core.json_text import canonical  # noqa: E402
from planner.errors import ModelError  # noqa: E402
from planner.importers.tracing.buffers import HeldIndices, SmallValues, to_meta  # noqa: E402
from planner.importers.tracing.hf import build_model  # noqa: E402
from planner.importers.tracing.trace import WithLoss, trace  # noqa: E402

TYPES = sorted(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
QUICK = ("bert", "gemma3_text", "gpt_neox", "gptj", "llama", "opt")
FILLED, MOST = 200_000_000, 2_000_000_000


def real(config: Any, class_name: str, count: int) -> Any:
    """Return the model as transformers builds it on the CPU; the parameters of a large one are not filled."""
    with initialization.no_init_weights() if count > FILLED else nullcontext():
        model = getattr(transformers, class_name)._from_config(config, dtype=torch.bfloat16)
    model.tie_weights()
    return model


def compare(kind: str) -> int:
    """Compare buffers, parameters and their ties; return how many buffers there are."""
    values = json.loads(canonical(default_config(kind)))
    model, _, _ = build_model(values, kind, torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    if count > MOST:
        return 0
    other = real(model.config, type(model).__name__, count)
    held = to_meta(model)
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} <= {"meta"}
    wanted = dict(other.named_buffers())
    assert wanted.keys() <= held.keys()
    for path, buffer in wanted.items():
        assert (held[path].dtype, held[path].shape) == (buffer.dtype, buffer.shape)
        assert torch.equal(held[path], buffer), path
    shapes = [{n: (p.shape, p.dtype, p.requires_grad) for n, p in m.named_parameters()} for m in (model, other)]
    assert shapes[0] == shapes[1]
    return len(wanted)


@pytest.mark.parametrize("kind", QUICK)
def test_buffers_hold_what_they_do_in_a_real_model(kind: str) -> None:
    compare(kind)


@pytest.mark.slow
def test_buffers_of_all_types() -> None:
    counts = {}
    for kind in TYPES:
        try:
            counts[kind] = compare(kind)
        except ModelError:
            continue
    assert len(counts) > 120
    assert sum(count > 0 for count in counts.values()) > 60


def test_what_has_no_values_or_is_large_takes_no_memory() -> None:
    with SmallValues():
        made = [
            torch.empty(3), torch.randn(2, 2), torch.ones(1 << 23), torch.zeros(1 << 12, 1 << 12),
            torch.nn.Linear(4, 4).weight,
        ]  # fmt: skip
        small = [torch.ones(3), torch.arange(5), torch.tensor([1.5]), torch.full((2,), 7), torch.linspace(0, 1, 3)]
        there = torch.empty(2, device="cpu")
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert {tensor.device.type for tensor in (*small, there)} == {"cpu"}
    assert small[1].tolist() == [0, 1, 2, 3, 4]
    assert torch.empty(3).device.type == "cpu"


def test_shared_tensors_stay_shared() -> None:
    module = torch.nn.Module()
    module.a, module.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    module.b.weight = module.a.weight
    module.register_buffer("held", torch.arange(3))
    module.plain = torch.ones(2)
    values = to_meta(module)
    assert module.b.weight is module.a.weight
    assert {path: value.tolist() for path, value in values.items()} == {"held": [0, 1, 2], "plain": [1.0, 1.0]}
    assert module.plain.device.type == "meta"


def test_lists_of_indices_keep_their_values() -> None:
    """On the meta device, a list in an index would become a tensor without them."""
    x = torch.zeros(3, 8, device="meta")
    with HeldIndices():
        assert x[..., [-2, 0, 1]].shape == (3, 3)
        assert x[[True, False, True]].shape == (2, 8)
    table = torch.arange(24).view(3, 8)
    with HeldIndices():
        assert torch.equal(table[[2, 0], 1:3], table[torch.tensor([2, 0]), 1:3])


def test_traces_of_indexing_with_lists_know_the_places() -> None:
    class Picks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8, device="meta"))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return (tokens[..., None] * self.weight)[..., [-2]]

    def run(model: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = model(tokens)
        return made.sum(), made

    tokens = torch.zeros(4, 6, dtype=torch.long, device="meta")
    program = trace(WithLoss(Picks(), run), {"tokens": tokens}, {"tokens": ("B", "S")}, "picks")
    assert [buffer.values for buffer in program.buffers] == [(-2,)]
