"""Masks, positions and tables are recognised however they are written, and nothing else is."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from planner.core.symbol import symbol
from planner.importers.aten.constants import fold_constants
from planner.importers.aten.program import Call, Program, Ref

from .probes import Make, program

LOW = torch.finfo(torch.float32).min


def arange(tokens: Any) -> Any:
    return torch.arange(tokens.shape[1])


def by_positions(tokens: Any) -> Any:
    places = arange(tokens)
    return (places[None, :] <= places[:, None])[None, None].expand(tokens.shape[0], 1, -1, -1)


def by_triangle(tokens: Any) -> Any:
    return torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()


def by_filling(tokens: Any) -> Any:
    length = tokens.shape[1]
    mask = torch.full((length, length), LOW)
    return torch.triu(mask, diagonal=1)[None, None]


def by_where(tokens: Any) -> Any:
    return torch.where(by_positions(tokens), 0.0, float("-inf"))


def window(width: int) -> Make:
    def make(tokens: Any) -> Any:
        places = arange(tokens)
        back = places[:, None] - places[None, :]
        return (back >= 0) & (back < width)

    return make


def chunk(width: int) -> Make:
    def make(tokens: Any) -> Any:
        places = arange(tokens)
        return (places[:, None] // width == places[None, :] // width) & by_triangle(tokens)

    return make


def around(width: int) -> Make:
    def make(tokens: Any) -> Any:
        places = arange(tokens)
        return (places[:, None] - places[None, :]).abs() <= width

    return make


def rotary(tokens: Any, frequencies: Any) -> Any:
    angles = arange(tokens)[None, :, None].float() * frequencies[None, None, :]
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def made(program: Program) -> list[Call]:
    """Return the calls before the product with the weight."""
    return [call for call in fold_constants(program).calls if not call.target.startswith(("aten.sum", "aten.stack"))]


MASKS: list[tuple[str, Make, dict[str, Any]]] = [
    ("causal_mask", by_positions, {}),
    ("causal_mask", by_triangle, {}),
    ("causal_mask", by_filling, {"fill": LOW}),
    ("causal_mask", by_where, {"fill": -math.inf}),
    ("causal_mask", window(2), {"window": 2}),
    ("causal_mask", window(9), {"window": 9}),
    ("causal_mask", window(4096), {"window": 4096}),
    ("causal_mask", window(100_000), {"window": 100_000}),
    ("causal_mask", chunk(5), {"chunk": 5}),
    ("causal_mask", chunk(8192), {"chunk": 8192}),
    ("window_mask", around(3), {"reach": 3}),
    ("window_mask", around(64), {"reach": 64}),
]


@pytest.mark.parametrize(("target", "make", "keywords"), MASKS)
def test_masks(target: str, make: Make, keywords: dict[str, Any]) -> None:
    found = [call for call in made(program(make)) if call.target.startswith("fused")]
    assert [(call.target, dict(call.keywords)) for call in found] == [(f"fused.{target}", keywords)]
    (call,) = found
    assert call.results[0].shape[-2:] == (symbol("S"), symbol("S"))
    assert call.results[0].dtype == ("bool" if "fill" not in keywords else "compute")


def test_a_mask_that_hides_nothing_is_full() -> None:
    def make(tokens: Any) -> Any:
        return (arange(tokens)[:, None] >= 0).expand(tokens.shape[0], 1, tokens.shape[1], tokens.shape[1])

    call = made(program(make))[0]
    assert (call.target, call.arguments) == ("aten.full.default", (call.results[0].shape, True))


def test_a_mask_that_hides_something_else_stays() -> None:
    """What it is made of is still recognised."""

    def make(tokens: Any) -> Any:
        return by_triangle(tokens) & (arange(tokens)[None, :] != 2)

    calls = made(program(make))
    assert [call.target for call in calls if call.target.startswith("fused")] == ["fused.causal_mask"]
    assert any(call.target.startswith("aten.__and__") for call in calls)


def test_a_window_that_only_long_sequences_show_is_no_causal_mask() -> None:
    """Where nothing tells the width, which is then a product, the mask is not taken for a causal one."""

    def make(tokens: Any) -> Any:
        places = arange(tokens)
        return by_triangle(tokens) & ((places[:, None] - places[None, :]) * 8 < 120)

    calls = made(program(make))
    assert {dict(call.keywords).get("window", 0) for call in calls if call.target == "fused.causal_mask"} <= {0, 15}
    assert any(call.target.startswith("aten.__and__") for call in calls)


@pytest.mark.parametrize(("start", "step"), [(0, 1), (3, 1), (0, 2), (5, -1)])
def test_positions(start: int, step: int) -> None:
    def make(tokens: Any) -> Any:
        return (start + step * arange(tokens))[None].expand(tokens.shape[0], -1)

    calls = made(program(make))
    targets = [call.target.split(".")[1] for call in calls]
    expected = ["arange", *["mul"] * (step != 1), *["add"] * (start != 0), "unsqueeze", "expand", "mul"]
    assert targets == expected
    assert calls[0].arguments == (symbol("S"),)


def test_positions_that_end_are_not_a_range() -> None:
    calls = made(program(lambda tokens: arange(tokens).clamp(max=500)))
    assert [call.target for call in calls][:2] == ["aten.arange.default", "aten.clamp.default"]


@pytest.mark.parametrize(("theta", "width"), [(10_000.0, 8), (500_000.0, 128), (150_000.0, 64)])
def test_rotary_tables(theta: float, width: int) -> None:
    frequencies = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)
    calls = made(program(rotary, frequencies))
    assert calls[0].target == "fused.rotary_table"
    assert dict(calls[0].keywords) == {"theta": theta, "head_dim": width}
    read = [call.arguments[0] for call in calls if call.target == "aten.to.dtype"]
    assert read == [Ref(calls[0].name), Ref(f"{calls[0].name}:1")]


def test_rotary_tables_that_a_buffer_holds() -> None:
    """Sines beside cosines, of which rows are picked by position."""
    angles = torch.outer(torch.arange(2048), 1e6 ** -(torch.arange(0, 64, 2).float() / 64))

    def make(tokens: Any, held: Any) -> Any:
        places = arange(tokens)[None].expand(tokens.shape[0], -1)
        rows = held.repeat(tokens.shape[0], 1, 1).gather(1, places[..., None].repeat(1, 1, 64))
        sin, cos = rows.split(32, -1)
        return cos[:, :, None].repeat_interleave(2, 3), sin[:, :, None].repeat_interleave(2, 3)

    calls = made(program(make, torch.cat((angles.sin(), angles.cos()), 1)))
    tables = [call for call in calls if call.target == "fused.rotary_table"]
    assert [dict(table.keywords) for table in tables] == [{"head_dim": 64, "theta": 1e6, "form": "neighbours"}]
    assert not any(call.target == "aten.gather.default" for call in calls)


def test_a_held_table_of_something_else_stays() -> None:
    calls = made(program(lambda tokens, held: held[arange(tokens)], torch.arange(800.0).view(100, 8) % 0.7))
    assert [call.target for call in calls if "index" in call.target] == ["aten.index.Tensor"]


def test_a_table_of_one_frequency() -> None:
    (table, *_) = made(program(rotary, torch.ones(1)))
    assert (table.target, dict(table.keywords)["head_dim"]) == ("fused.rotary_table", 2)


@pytest.mark.parametrize("layout", ["once", "neighbours"])
def test_layouts_of_rotary_tables(layout: str) -> None:
    frequencies = 1.0 / 1e4 ** (torch.arange(0, 8, 2).float() / 8)

    def make(tokens: Any, held: Any) -> Any:
        angles = torch.outer(arange(tokens), held)
        cos, sin = angles.cos() * 1.25, angles.sin() * 1.25
        return (cos, sin) if layout == "once" else (cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1))

    (table, *others) = made(program(make, frequencies))
    form = {} if layout == "once" else {"form": layout}
    assert dict(table.keywords) == {"theta": 1e4, "head_dim": 8, "scale": 1.25, **form}
    cuts = [call.arguments for call in others if call.target == "aten.slice.Tensor"]
    assert cuts == [(Ref(f"{table.name}{result}"), 1, 0, 4) for result in ("", ":1") if layout == "once"]


def test_scaled_rotary_tables() -> None:
    """Llama 3.1's rule is read off the frequencies; others are kept as numbers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    common = {"rope_theta": 500_000.0, "factor": 8.0, "original_max_position_embeddings": 8192}
    more = {"llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, "yarn": {}}
    found = {}
    for kind, given in more.items():
        config = LlamaConfig(head_dim=128, rope_parameters={"rope_type": kind, **common, **given})
        frequencies, _ = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
        (table, *_) = made(program(rotary, frequencies))
        found[kind] = dict(table.keywords)
        if kind == "yarn":
            assert torch.allclose(torch.tensor(found[kind].pop("frequencies")), frequencies)
    assert found["llama3"] == {
        "theta": 500_000.0, "head_dim": 128, "rope_factor": 8.0, "rope_low_frequency": 1.0, "rope_high_frequency": 4.0,
        "rope_original_length": 8192,
    }  # fmt: skip
    assert found["yarn"] == {"head_dim": 128}


def test_a_few_numbers_are_kept() -> None:
    def make(tokens: Any) -> Any:
        return torch.tensor([[3, 1, 4], [1, 5, 9]])[:, None].expand(-1, tokens.shape[1], -1)

    calls = made(program(make))
    assert [call.target for call in calls][:2] == ["fused.constant", "aten.expand.default"]
    assert (dict(calls[0].keywords)["values"], calls[0].results[0].shape) == ((3, 1, 4, 1, 5, 9), (2, 1, 3))


def test_numbers_without_dims_are_written_into_calls() -> None:
    calls = made(program(lambda tokens: torch.tensor(2.5) + torch.zeros((), dtype=torch.float32)))
    product = next(call for call in calls if call.target.startswith("aten.mul"))
    assert product.arguments[1:] == (2.5,)


def test_a_buffer_without_values_stays() -> None:
    calls = made(program(lambda tokens, held: held[: tokens.shape[1]], torch.zeros(1 << 19)))
    assert calls[0].target == "aten.slice.Tensor"


def test_places_that_are_counted_from_the_back_are_counted_from_the_front() -> None:
    def make(tokens: Any, held: Any) -> Any:
        return torch.outer(tokens[0], held)[:, [-1, 0, -3]], torch.outer(tokens[0], held)[:, [2, 1]]

    calls = made(program(make, torch.arange(8.0)))
    turned = [call for call in calls if call.target == "aten.remainder.Scalar"]
    read = [call.arguments[1] for call in calls if call.target == "aten.index.Tensor"]
    assert [call.arguments[1] for call in turned] == [8]
    assert read[0] == (None, Ref(turned[0].name))


def test_nothing_is_no_constant() -> None:
    def empty(tokens: Any) -> Any:
        return torch.zeros(0, 4)

    folded = fold_constants(program(empty))
    assert not [call for call in folded.calls if call.target.startswith("fused.")]


def test_a_mask_of_a_fixed_length() -> None:
    """Of a model that fixes its sequence; the values of a small one are no list."""

    def fixed(tokens: Any) -> Any:
        return torch.ones(24, 24, dtype=torch.bool).tril()

    (call,) = (call for call in fold_constants(program(fixed)).calls if call.target.startswith("fused."))
    assert call.target == "fused.causal_mask"
