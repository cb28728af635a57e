"""Facts: the well-known ways to parallelise, as data. The table `PRESETS` has one entry each.

A preset adds its axes to what a plan already has on the same factor, so presets multiply: data parallel over `dp`, then
Megatron over `tp`, is the product of both. Its targets are those of several families; a plan takes those that its model
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.plan import FactorDecision, ParameterDecision, Preset

__all__ = ["PRESETS"]


def _shard(target: str, factor: str, axis: str = "axis") -> FactorDecision:
    return FactorDecision(target=target, factor=factor, axes=(axis,))


_BATCH = (_shard("embed_tokens", "batch"), _shard("wte", "batch"))

DATA_PARALLEL = Preset(
    name="data_parallel",
    summary="each rank of the axis takes its share of the batch; gradients are summed over the axis",
    axes=("axis",),
    factors=_BATCH,
)
# Rajbhandari et al. 2020, "ZeRO", section 5: stages 1 to 3 shard optimizer state, gradients and parameters.
ZERO_1 = Preset(
    name="zero1",
    summary="data parallel, with optimizer state sharded over the axis (ZeRO-1)",
    axes=("axis",),
    factors=_BATCH,
    parameters=(ParameterDecision(target="*", of="optimizer", axes=("axis",)),),
)
ZERO_2 = Preset(
    name="zero2",
    summary="data parallel, with gradients and optimizer state sharded over the axis (ZeRO-2)",
    axes=("axis",),
    factors=_BATCH,
    parameters=(ParameterDecision(target="*", of="gradient", axes=("axis",)),),
)
ZERO_3 = Preset(
    name="zero3",
    summary="data parallel, with parameters, gradients and optimizer state sharded over the axis (ZeRO-3, FSDP)",
    axes=("axis",),
    factors=_BATCH,
    parameters=(ParameterDecision(target="*", axes=("axis",), regather=True),),
)
# Shoeybi et al. 2019, section 3: column-parallel into the block, row-parallel out of it, vocabulary over the axis.
MEGATRON = Preset(
    name="megatron",
    summary="tensor parallel: heads, feed-forward width and vocabulary over the axis",
    axes=("axis",),
    factors=(
        _shard("embed_tokens", "vocab"),
        _shard("self_attn.q_proj", "n"),
        _shard("self_attn.k_proj|v_proj", "n", "axis.major"),
        _shard("self_attn.o_proj", "k"),
        _shard("mlp.gate_proj|up_proj", "n"),
        _shard("mlp.down_proj", "k"),
        _shard("mlp.experts_gate_up", "n"),
        _shard("mlp.experts_down", "k"),
        _shard("lm_head", "n"),
        _shard("wte", "vocab"),
        _shard("attn.c_attn", "n", "axis.major"),
        _shard("attn.c_proj", "k"),
        _shard("mlp.c_fc", "n"),
        _shard("mlp.c_proj", "k"),
    ),
    align=(("axis", "g"),),
)
# Korthikanti et al. 2022, section 4.2.2: norms and residual stream between the tensor-parallel regions.
SEQUENCE_PARALLEL = Preset(
    name="sequence_parallel",
    summary="norms and residual stream sharded along the sequence over the axis of tensor parallelism",
    axes=("axis",),
    factors=(
        _shard("input_layernorm|post_attention_layernorm", "seq"),
        _shard("residual_attention|residual_mlp", "seq"),
        _shard("model.norm", "seq"),
        _shard("ln_1|ln_2|ln_f", "seq"),
        # So that the partial sums of the product before are scattered at once.
        _shard("c_proj_bias|add_positions", "seq"),
    ),
)

# Lepikhin et al. 2020, GShard, section 3: with the batch over the same axis, tokens go there and back by all-to-all.
# A factor follows all axes that arrive on it or none, so with the batch over a second axis its share has to be pinned.
EXPERT_PARALLEL = Preset(
    name="expert_parallel",
    summary="each rank of the axis has its share of the experts; pin their batch to its other axes, if it has any",
    axes=("axis",),
    factors=(_shard("mlp.experts_gate_up", "e"), _shard("mlp.experts_down", "expert")),
)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (DATA_PARALLEL, EXPERT_PARALLEL, MEGATRON, SEQUENCE_PARALLEL, ZERO_1, ZERO_2, ZERO_3)
    }
)
