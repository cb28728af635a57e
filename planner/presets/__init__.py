"""Facts: the well-known ways to parallelise, as data. The table `PRESETS` has one entry each.

A preset adds its axes to what a plan already has on the same factor, so presets multiply: data parallel over `dp`, then
Megatron over `tp`, is the product of both. Its targets are those of several families; a plan takes those that its model
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.plan import FactorDecision, ParameterDecision, Preset, RecomputeDecision

__all__ = ["PRESETS"]


def _shard(target: str, factor: str, axis: str = "axis") -> FactorDecision:
    return FactorDecision(target=target, factor=factor, axes=(axis,))


DATA_PARALLEL = Preset(
    name="data_parallel",
    summary="each rank of the axis takes its share of the batch; gradients are summed over the axis",
    axes=("axis",),
    samples=("axis",),
)
# Rajbhandari et al. 2020, "ZeRO", section 5: stages 1 to 3 shard optimizer state, gradients and parameters.
ZERO_1 = Preset(
    name="zero1",
    summary="data parallel, with optimizer state sharded over the axis (ZeRO-1)",
    axes=("axis",),
    samples=("axis",),
    parameters=(ParameterDecision(target="*", of="optimizer", axes=("axis",)),),
)
ZERO_2 = Preset(
    name="zero2",
    summary="data parallel, with gradients and optimizer state sharded over the axis (ZeRO-2)",
    axes=("axis",),
    samples=("axis",),
    parameters=(ParameterDecision(target="*", of="gradient", axes=("axis",)),),
)
ZERO_3 = Preset(
    name="zero3",
    summary="data parallel, with parameters, gradients and optimizer state sharded over the axis (ZeRO-3, FSDP)",
    axes=("axis",),
    samples=("axis",),
    parameters=(ParameterDecision(target="*", axes=("axis",), regather=True),),
)

# What is split by its results, column-parallel: (targets, whether they give key/value heads).
_COLUMNS = (
    ("self_attn.q_proj", False), ("self_attn.k_proj|v_proj", True), ("encoder_attn.q_proj", False),
    ("encoder_attn.k_proj|v_proj", True), ("attn.q_proj", False), ("attn.k_proj|v_proj", True),
    ("attention.q_proj", False), ("attention.k_proj|v_proj", True), ("self.query", False), ("self.key|value", True),
    ("attention.q_lin", False), ("attention.k_lin|v_lin", True), ("SelfAttention.q|k|v", True),
    ("EncDecAttention.q|k|v", True), ("attention|self_attention.query_key_value", True), ("attn.c_attn", True),
    ("self_attn.q_b_proj|kv_b_proj", True), ("mlp.gate_proj|up_proj", False),
    ("shared_experts.gate_proj|up_proj", False), ("mlp.experts.gate_up|up", False), ("mlp.c_fc", False),
    ("mlp.fc_in", False), ("mlp.fc1", False), ("layers.*.fc1", False), ("mlp.dense_h_to_4h", False),
    ("intermediate.dense", False), ("DenseReluDense.wi|wi_0|wi_1", False), ("ffn.up_proj|lin1", False),
    ("lm_head", False), ("embed_out|proj_out|vocab_projector|classifier", False), ("predictions.decoder", False),
)  # fmt: skip
# What is split by what it sums over, row-parallel.
_ROWS = (
    "self_attn.o_proj", "self_attn|encoder_attn.out_proj|dense", "attn.out_proj", "attention.o_proj|out_lin",
    "attention|self_attention.dense", "output.dense", "SelfAttention|EncDecAttention.o", "attn.c_proj",
    "mlp.down_proj", "shared_experts.down_proj", "mlp.experts.down|einsum_2", "mlp.c_proj", "mlp.fc_out", "mlp.fc2",
    "layers.*.fc2", "mlp.dense_4h_to_h", "DenseReluDense.wo", "ffn.down_proj|lin2",
)  # fmt: skip
_TABLES = ("embed_tokens", "wte", "word_embeddings", "embed_in", "shared")

# Shoeybi et al. 2019, section 3: column-parallel into the block, row-parallel out of it, vocabulary over the axis.
MEGATRON = Preset(
    name="megatron",
    summary="tensor parallel: heads, feed-forward width and vocabulary over the axis",
    axes=("axis",),
    factors=(
        *(_shard(table, "vocab") for table in _TABLES),
        *(_shard(target, "n", "axis.major" if grouped else "axis") for target, grouped in _COLUMNS),
        *(_shard(target, "k") for target in _ROWS),
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
        _shard("pre_feedforward_layernorm|post_feedforward_layernorm", "seq"),
        _shard("layernorm_before|layernorm_after|LayerNorm|layer_norm", "seq"),
        _shard("self_attn_layer_norm|encoder_attn_layer_norm|final_layer_norm", "seq"),
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
    factors=(
        _shard("mlp.experts.gate_up", "e"),
        _shard("mlp.experts.down", "expert"),
        # Where weights are [expert, in, out], both are sums of products by index.
        _shard("mlp.experts.up|einsum_2", "e"),
    ),
)

# Chen et al. 2016, "Training deep nets with sublinear memory cost", section 4, with a layer as a piece.
RECOMPUTE_FULL = Preset(
    name="recompute_full",
    summary="each layer keeps only what goes in, and is computed again in backward",
    axes=(),
    recompute=(RecomputeDecision(target="layers|layer|h|block|blocks.*"),),
)
# Korthikanti et al. 2022, section 5: scores, softmax, dropout and their product with the values.
_ATTENTION = (
    "self_attn|attn|attention|self|self_attention|encoder_attn|SelfAttention|EncDecAttention."
    "attention|attention_scores|expand|logical_not|masked_fill|add|softmax|dropout|value|v|split_heads_3|attend"
)
RECOMPUTE_SELECTIVE = Preset(
    name="recompute_selective",
    summary="the core of attention is computed again in backward: scores, softmax and their product with the values",
    axes=(),
    recompute=(RecomputeDecision(target=_ATTENTION),),
)
# Ren et al. 2021, "ZeRO-Offload": optimizer state in the memory of the host, updated there.
OFFLOAD_OPTIMIZER = Preset(
    name="offload_optimizer",
    summary="optimizer state lies on the host, which updates the parameters (ZeRO-Offload)",
    axes=(),
    parameters=(ParameterDecision(target="*", of="optimizer", place="host"),),
)
# Rajbhandari et al. 2021, "ZeRO-Infinity", section 5.1, without the disk.
OFFLOAD_PARAMETERS = Preset(
    name="offload_parameters",
    summary="parameters and optimizer state lie on the host; a layer's parameters are on the device while it runs",
    axes=(),
    parameters=(
        ParameterDecision(target="*", place="host"),
        ParameterDecision(target="*", of="optimizer", place="host"),
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            DATA_PARALLEL, EXPERT_PARALLEL, MEGATRON, OFFLOAD_OPTIMIZER, OFFLOAD_PARAMETERS, RECOMPUTE_FULL,
            RECOMPUTE_SELECTIVE, SEQUENCE_PARALLEL, ZERO_1, ZERO_2, ZERO_3,
        )
    }
)  # fmt: skip
