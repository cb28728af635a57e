"""the config on the mesh dp:2,tp:2, one class per module.

Every tensor is this rank's shard. Comments give the layout of each result and, above each resharding call,
the plan's edge: the value, its layout, the layouts that its readers want, and the bytes passed.
"""

import torch
import torch.nn.functional as F
from torch import nn

from parallel import operators as ops
from parallel.mesh import Mesh
from parallel.parameters import Weights
from parallel.reshard import reshard
from parallel.steps import AllGather, AllReduce, ReduceScatter


class LlamaAttention(nn.Module):
    """the config: model.layers.*.self_attn."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.q_proj = Weights(mesh, weight=((32, 32), "[tp·dp, -]", "normal"))
        self.k_proj = Weights(mesh, weight=((16, 32), "[tp·dp, -]", "normal"))
        self.v_proj = Weights(mesh, weight=((16, 32), "[tp·dp, -]", "normal"))
        self.o_proj = Weights(mesh, weight=((32, 32), "[dp, tp]", "normal"))

    def forward(self, input_layernorm: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.*.self_attn.q_proj.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 4.0 KiB for q_proj
        #   gradient [tp, -] +dp → [tp·dp, -], 4.0 KiB
        q_proj_weight = reshard(
            self.q_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        q_proj = F.linear(input_layernorm, q_proj_weight)  # [dp, -, tp]
        split_q = q_proj.unflatten(2, (4, 4)).transpose(1, 2)  # [dp, tp, -, -]
        rotary_q = ops.rotate(split_q, cos, sin)  # [dp, tp, -, -]
        # model.layers.*.self_attn.k_proj.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 2.0 KiB for k_proj
        #   gradient [tp, -] +dp → [tp·dp, -], 2.0 KiB
        k_proj_weight = reshard(
            self.k_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        k_proj = F.linear(input_layernorm, k_proj_weight)  # [dp, -, tp]
        split_k = k_proj.unflatten(2, (2, 4)).transpose(1, 2)  # [dp, tp, -, -]
        rotary_k = ops.rotate(split_k, cos, sin)  # [dp, tp, -, -]
        # model.layers.*.self_attn.v_proj.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 2.0 KiB for v_proj
        #   gradient [tp, -] +dp → [tp·dp, -], 2.0 KiB
        v_proj_weight = reshard(
            self.v_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        v_proj = F.linear(input_layernorm, v_proj_weight)  # [dp, -, tp]
        split_v = v_proj.unflatten(2, (2, 4)).transpose(1, 2)  # [dp, tp, -, -]
        attention = ops.causal_attention(rotary_q, rotary_k, split_v)  # [dp, tp, -, -]
        merge_heads = attention.transpose(1, 2).flatten(2)  # [dp, -, tp]
        # model.layers.*.self_attn.o_proj.weight, [dp, tp]:
        #   [dp, tp] → [-, tp], 4.0 KiB for o_proj
        #   gradient [-, tp] +dp → [dp, tp], 4.0 KiB
        o_proj_weight = reshard(
            self.o_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        o_proj = F.linear(merge_heads, o_proj_weight)  # [dp, -, -] +tp
        # model.layers.*.self_attn.o_proj, [dp, -, -] +tp:
        #   [dp, -, -] +tp → [dp, -, -], 8.0 KiB for residual_attention
        #   gradient [dp, -, -] as it is
        o_proj = reshard(o_proj, mesh, forward=[AllReduce(axes=("tp",))])
        return o_proj


class LlamaMLP(nn.Module):
    """the config: model.layers.*.mlp."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.gate_proj = Weights(mesh, weight=((48, 32), "[tp·dp, -]", "normal"))
        self.up_proj = Weights(mesh, weight=((48, 32), "[tp·dp, -]", "normal"))
        self.down_proj = Weights(mesh, weight=((32, 48), "[dp, tp]", "normal"))

    def forward(self, post_attention_layernorm: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.*.mlp.gate_proj.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 6.0 KiB for gate_proj
        #   gradient [tp, -] +dp → [tp·dp, -], 6.0 KiB
        gate_proj_weight = reshard(
            self.gate_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        gate_proj = F.linear(post_attention_layernorm, gate_proj_weight)  # [dp, -, tp]
        # model.layers.*.mlp.up_proj.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 6.0 KiB for up_proj
        #   gradient [tp, -] +dp → [tp·dp, -], 6.0 KiB
        up_proj_weight = reshard(
            self.up_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        up_proj = F.linear(post_attention_layernorm, up_proj_weight)  # [dp, -, tp]
        swiglu = F.silu(gate_proj) * up_proj  # [dp, -, tp]
        # model.layers.*.mlp.down_proj.weight, [dp, tp]:
        #   [dp, tp] → [-, tp], 6.0 KiB for down_proj
        #   gradient [-, tp] +dp → [dp, tp], 6.0 KiB
        down_proj_weight = reshard(
            self.down_proj.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        down_proj = F.linear(swiglu, down_proj_weight)  # [dp, -, -] +tp
        # model.layers.*.mlp.down_proj, [dp, -, -] +tp:
        #   [dp, -, -] +tp → [dp, -, -], 8.0 KiB for residual_mlp
        #   gradient [dp, -, -] as it is
        down_proj = reshard(down_proj, mesh, forward=[AllReduce(axes=("tp",))])
        return down_proj


class LlamaDecoderLayer(nn.Module):
    """the config: model.layers.*."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.self_attn = LlamaAttention(mesh)
        self.mlp = LlamaMLP(mesh)
        self.input_layernorm = Weights(mesh, weight=((32,), "[dp]", "ones"))
        self.post_attention_layernorm = Weights(mesh, weight=((32,), "[dp]", "ones"))

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.*.input_layernorm.weight, [dp]:
        #   [dp] → [-], 256 B for input_layernorm
        #   gradient [-] +dp → [dp], 256 B
        input_layernorm_weight = reshard(
            self.input_layernorm.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        # [dp, -, -]
        input_layernorm = F.rms_norm(hidden, input_layernorm_weight.shape, input_layernorm_weight, eps=1e-06)
        # model.layers.*.input_layernorm, [dp, -, -]:
        #   [dp, -, -] as it is for q_proj, k_proj, v_proj
        #   gradient [dp, -, -] +tp → [dp, -, -], 8.0 KiB
        input_layernorm = reshard(input_layernorm, mesh, backward=[AllReduce(axes=("tp",))])
        o_proj = self.self_attn(input_layernorm, cos, sin)
        residual_attention = hidden + o_proj  # [dp, -, -]
        # model.layers.*.post_attention_layernorm.weight, [dp]:
        #   [dp] → [-], 256 B for post_attention_layernorm
        #   gradient [-] +dp → [dp], 256 B
        post_attention_layernorm_weight = reshard(
            self.post_attention_layernorm.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        # [dp, -, -]
        post_attention_layernorm = F.rms_norm(
            residual_attention,
            post_attention_layernorm_weight.shape,
            post_attention_layernorm_weight,
            eps=1e-06,
        )
        # model.layers.*.post_attention_layernorm, [dp, -, -]:
        #   [dp, -, -] as it is for gate_proj, up_proj
        #   gradient [dp, -, -] +tp → [dp, -, -], 8.0 KiB
        post_attention_layernorm = reshard(post_attention_layernorm, mesh, backward=[AllReduce(axes=("tp",))])
        down_proj = self.mlp(post_attention_layernorm)
        residual_mlp = residual_attention + down_proj  # [dp, -, -]
        return residual_mlp


class LlamaModel(nn.Module):
    """the config: model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.layers = nn.ModuleList([LlamaDecoderLayer(mesh) for _ in range(2)])
        self.embed_tokens = Weights(mesh, weight=((32, 32), "[tp·dp, -]", "normal"))
        self.norm = Weights(mesh, weight=((32,), "[dp]", "ones"))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.embed_tokens.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 4.0 KiB for embed_tokens
        #   gradient [tp, -] +dp → [tp·dp, -], 4.0 KiB
        embed_tokens_weight = reshard(
            self.embed_tokens.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        # [dp, -, -] +tp
        embed_tokens = ops.embedding_of_shard(tokens, embed_tokens_weight, first=mesh.index("tp") * 16)
        # model.embed_tokens, [dp, -, -] +tp:
        #   [dp, -, -] +tp → [dp, -, -], 8.0 KiB for model.layers.0-1
        #   gradient [dp, -, -] as it is
        embed_tokens = reshard(embed_tokens, mesh, forward=[AllReduce(axes=("tp",))])
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=mesh.device)  # [-, -], [-, -]
        hidden = embed_tokens
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        # model.norm.weight, [dp]:
        #   [dp] → [-], 256 B for norm
        #   gradient [-] +dp → [dp], 256 B
        norm_weight = reshard(
            self.norm.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        norm = F.rms_norm(hidden, norm_weight.shape, norm_weight, eps=1e-06)  # [dp, -, -]
        # model.norm, [dp, -, -]:
        #   [dp, -, -] as it is for lm_head
        #   gradient [dp, -, -] +tp → [dp, -, -], 8.0 KiB
        norm = reshard(norm, mesh, backward=[AllReduce(axes=("tp",))])
        return norm


class LlamaForCausalLM(nn.Module):
    """the config: the whole model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.model = LlamaModel(mesh)
        self.lm_head = Weights(mesh, weight=((32, 32), "[tp·dp, -]", "normal"))

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        norm = self.model(tokens)
        # lm_head.weight, [tp·dp, -]:
        #   [tp·dp, -] → [tp, -], 4.0 KiB for lm_head
        #   gradient [tp, -] +dp → [tp·dp, -], 4.0 KiB
        lm_head_weight = reshard(
            self.lm_head.weight,
            mesh,
            forward=[AllGather(dim=0, axes=("dp",))],
            backward=[ReduceScatter(dim=0, axes=("dp",))],
            regather=True,
        )
        lm_head = F.linear(norm, lm_head_weight)  # [dp, -, tp]
        row_max = ops.row_max(lm_head)  # [dp, -] max(tp)
        # loss~row_max, [dp, -] max(tp):
        #   [dp, -] max(tp) → [dp, -], 128 B for loss~sum_exp, loss~log_loss
        row_max = reshard(row_max, mesh, forward=[AllReduce(axes=("tp",), op="max")])
        sum_exp = ops.sum_exp(lm_head, row_max)  # [dp, -] +tp
        # loss~sum_exp, [dp, -] +tp:
        #   [dp, -] +tp → [dp, -], 128 B for loss~log_loss
        #   gradient [dp, -] as it is
        sum_exp = reshard(sum_exp, mesh, forward=[AllReduce(axes=("tp",))])
        pick_target = ops.pick_target(lm_head, labels, first=mesh.index("tp") * 16)  # [dp, -] +tp
        # loss~pick_target, [dp, -] +tp:
        #   [dp, -] +tp → [dp, -], 128 B for loss~log_loss
        #   gradient [dp, -] as it is
        pick_target = reshard(pick_target, mesh, forward=[AllReduce(axes=("tp",))])
        log_loss = ops.log_loss(sum_exp, row_max, pick_target, labels, ignore_index=-100)  # [dp, -]
        sum_tokens = log_loss.sum()  # [] +dp
        # loss~sum_tokens, [] +dp:
        #   [] +dp → [], 4 B for loss
        #   gradient [] as it is
        sum_tokens = reshard(sum_tokens, mesh, forward=[AllReduce(axes=("dp",))])
        count_targets = ops.count_targets(labels, ignore_index=-100)  # [] +dp
        # loss~count_targets, [] +dp:
        #   [] +dp → [], 4 B for loss
        count_targets = reshard(count_targets, mesh, forward=[AllReduce(axes=("dp",))])
        loss = ops.divide(sum_tokens, count_targets)  # []
        return loss
