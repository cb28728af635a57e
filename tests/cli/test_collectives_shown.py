"""What Llama 3 8B costs in collectives under the known schemes, as `evaluate --json` tells it; closed forms by hand."""

from collections import Counter
from typing import Any

import pytest

from .command import answer

B, S, H, LAYERS = 8, 8192, 4096, 32
HIDDEN = B * S * H * 2
"""Bytes of the residual stream in bf16."""

NORMS = ["input_layernorm.weight", "post_attention_layernorm.weight"]
MATRICES = {
    "self_attn.q_proj.weight": H * H,
    "self_attn.k_proj.weight": H * H // 4,
    "self_attn.v_proj.weight": H * H // 4,
    "self_attn.o_proj.weight": H * H,
    "mlp.gate_proj.weight": H * 14336,
    "mlp.up_proj.weight": H * 14336,
    "mlp.down_proj.weight": H * 14336,
}
PARAMETERS = {**MATRICES, **dict.fromkeys(NORMS, H)}


def evaluated(mesh: str, *presets: str) -> list[dict[str, Any]]:
    options = [text for preset in presets for text in ("--preset", preset)]
    arguments = ("--cluster", "1x8-h100-sxm", "--mesh", mesh, *options, "--global-batch", str(B), "--seq", str(S))
    return answer("evaluate", "llama-3-8b", *arguments)["collectives"]


def in_layers(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    found = [r for r in rows if r["scope"] and all(r[key] == value for key, value in wanted.items())]
    assert all(r["scope"] == f"model.layers.0-{LAYERS - 1}" and r["count"] == LAYERS for r in found)
    return found


def short(name: str) -> str:
    return name.removeprefix("model.layers.*.").removeprefix("model.layers.*/")


def readers(row: dict[str, Any]) -> list[str]:
    return [short(reader) for reader in row["readers"]]


def by_parameter(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows by parameter; fails if one has several."""
    found = {short(row["value"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_megatron_all_reduces_twice_forward_and_twice_backward():
    rows = evaluated("tp:8", "megatron:tp")
    forward, backward = in_layers(rows, phase="forward"), in_layers(rows, phase="backward")
    assert {short(r["value"]): readers(r) for r in forward} == {
        "self_attn.o_proj": ["residual_attention"],
        "mlp.down_proj": ["residual_mlp"],
    }
    assert {short(r["value"]): readers(r) for r in backward} == {
        "input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"],
    }
    for row in (*forward, *backward):
        assert (row["kind"], row["axes"], row["group_size"]) == ("all_reduce", ["tp"], 8)
        assert row["payload_bytes"] == HIDDEN
        assert row["wire_bytes"] == 2 * HIDDEN * 7 / 8


def test_megatron_outside_the_layers():
    rows = [r for r in evaluated("tp:8", "megatron:tp") if not r["scope"]]
    # The embedding forward, the head backward; and the loss over a sharded vocabulary: maximum, sum, the label's logit.
    assert [(r["phase"], r["value"], r["kind"], r["payload_bytes"]) for r in rows] == [
        ("forward", "model.embed_tokens", "all_reduce", HIDDEN),
        ("forward", "loss~row_max", "all_reduce", B * S * 4),
        ("forward", "loss~sum_exp", "all_reduce", B * S * 4),
        ("forward", "loss~pick_target", "all_reduce", B * S * 4),
        ("backward", "model.norm", "all_reduce", HIDDEN),
    ]
    assert all(r["count"] == 1 for r in rows)


def test_sequence_parallel_gathers_and_scatters_in_pairs():
    rows = in_layers(evaluated("tp:8", "megatron:tp", "sequence_parallel:tp"), parameter=False)
    assert Counter((r["phase"], r["kind"]) for r in rows) == {
        ("forward", "all_gather"): 2,
        ("forward", "reduce_scatter"): 2,
        ("backward", "all_gather"): 2,
        ("backward", "reduce_scatter"): 2,
    }
    assert all(r["axes"] == ["tp"] and r["payload_bytes"] == HIDDEN for r in rows)
    assert all(r["wire_bytes"] == HIDDEN * 7 / 8 for r in rows)
    (qkv,) = [r for r in rows if r["phase"] == "forward" and short(r["value"]) == "input_layernorm"]
    assert qkv["kind"] == "all_gather"
    assert readers(qkv) == ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]


def test_data_parallel_reduces_every_gradient_once():
    rows = evaluated("dp:2,tp:4", "data_parallel:dp", "megatron:tp")
    reduced = by_parameter(in_layers(rows, parameter=True))
    assert set(reduced) == set(PARAMETERS)
    for name, row in reduced.items():
        assert (row["phase"], row["kind"], row["axes"], row["group_size"]) == ("backward", "all_reduce", ["dp"], 2)
        assert row["payload_bytes"] == 2 * PARAMETERS[name] // (4 if name in MATRICES else 1)
    outside = by_parameter([r for r in rows if r["parameter"] and not r["scope"]])
    assert set(outside) == {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    assert all(r["kind"] == "all_reduce" and r["axes"] == ["dp"] for r in outside.values())


def test_norms_reduce_over_both_axes_under_sequence_parallel():
    rows = evaluated("dp:2,tp:4", "data_parallel:dp", "megatron:tp", "sequence_parallel:tp")
    reduced = by_parameter([r for r in rows if r["parameter"]])
    norms = {*NORMS, "model.norm.weight"}
    for name, row in reduced.items():
        assert (row["phase"], row["kind"]) == ("backward", "all_reduce")
        assert row["axes"] == (["dp", "tp"] if name in norms else ["dp"])
    assert set(reduced) == {*PARAMETERS, "model.norm.weight", "model.embed_tokens.weight", "lm_head.weight"}


def test_zero3_gathers_forward_and_scatters_backward():
    rows = in_layers(evaluated("dp:8", "zero3:dp"))
    gathered = by_parameter([r for r in rows if r["phase"] == "forward"])
    again = by_parameter([r for r in rows if r["phase"] == "backward" and r["again"]])
    scattered = by_parameter([r for r in rows if r["phase"] == "backward" and not r["again"]])
    for found, kind in ((gathered, "all_gather"), (again, "all_gather"), (scattered, "reduce_scatter")):
        assert set(found) == set(PARAMETERS)
        for name, row in found.items():
            assert (row["kind"], row["axes"], row["group_size"]) == (kind, ["dp"], 8)
            assert row["payload_bytes"] == 2 * PARAMETERS[name]
            assert row["wire_bytes"] == 2 * PARAMETERS[name] * 7 / 8


@pytest.mark.parametrize("microbatches", [1, 2, 4])
def test_microbatches_multiply_counts_and_divide_bytes(microbatches):
    arguments = ("--mesh", "tp:8", "--preset", "megatron:tp", "--global-batch", "8", "--seq", str(S))
    found = answer("evaluate", "llama-3-8b", *arguments, "--microbatches", str(microbatches))
    for row in (r for r in found["collectives"] if r["scope"]):
        assert row["count"] == LAYERS * microbatches
        assert row["payload_bytes"] == HIDDEN // microbatches
