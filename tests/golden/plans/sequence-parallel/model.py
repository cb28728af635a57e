"""the config on the mesh tp:2, one class per module.

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
        self.q_proj = Weights(mesh, weight=((32, 32), "[tp, -]", "normal"))
        self.k_proj = Weights(mesh, weight=((16, 32), "[tp, -]", "normal"))
        self.v_proj = Weights(mesh, weight=((16, 32), "[tp, -]", "normal"))
        self.o_proj = Weights(mesh, weight=((32, 32), "[-, tp]", "normal"))

    def forward(self, input_layernorm: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        q_proj = F.linear(input_layernorm, self.q_proj.weight)  # [-, -, tp]
        split_q = q_proj.unflatten(2, (4, 4)).transpose(1, 2)  # [-, tp, -, -]
        rotary_q = ops.rotate(split_q, cos, sin)  # [-, tp, -, -]
        k_proj = F.linear(input_layernorm, self.k_proj.weight)  # [-, -, tp]
        split_k = k_proj.unflatten(2, (2, 4)).transpose(1, 2)  # [-, tp, -, -]
        rotary_k = ops.rotate(split_k, cos, sin)  # [-, tp, -, -]
        v_proj = F.linear(input_layernorm, self.v_proj.weight)  # [-, -, tp]
        split_v = v_proj.unflatten(2, (2, 4)).transpose(1, 2)  # [-, tp, -, -]
        attention = ops.causal_attention(rotary_q, rotary_k, split_v)  # [-, tp, -, -]
        merge_heads = attention.transpose(1, 2).flatten(2)  # [-, -, tp]
        o_proj = F.linear(merge_heads, self.o_proj.weight)  # [-, -, -] +tp
        # model.layers.*.self_attn.o_proj, [-, -, -] +tp:
        #   [-, -, -] +tp → [-, tp, -], 16.0 KiB for residual_attention
        #   gradient [-, tp, -] → [-, -, -], 16.0 KiB
        o_proj = reshard(
            o_proj,
            mesh,
            forward=[ReduceScatter(dim=1, axes=("tp",))],
            backward=[AllGather(dim=1, axes=("tp",))],
        )
        return o_proj


class LlamaMLP(nn.Module):
    """the config: model.layers.*.mlp."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.gate_proj = Weights(mesh, weight=((48, 32), "[tp, -]", "normal"))
        self.up_proj = Weights(mesh, weight=((48, 32), "[tp, -]", "normal"))
        self.down_proj = Weights(mesh, weight=((32, 48), "[-, tp]", "normal"))

    def forward(self, post_attention_layernorm: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        gate_proj = F.linear(post_attention_layernorm, self.gate_proj.weight)  # [-, -, tp]
        up_proj = F.linear(post_attention_layernorm, self.up_proj.weight)  # [-, -, tp]
        swiglu = F.silu(gate_proj) * up_proj  # [-, -, tp]
        down_proj = F.linear(swiglu, self.down_proj.weight)  # [-, -, -] +tp
        # model.layers.*.mlp.down_proj, [-, -, -] +tp:
        #   [-, -, -] +tp → [-, tp, -], 16.0 KiB for residual_mlp
        #   gradient [-, tp, -] → [-, -, -], 16.0 KiB
        down_proj = reshard(
            down_proj,
            mesh,
            forward=[ReduceScatter(dim=1, axes=("tp",))],
            backward=[AllGather(dim=1, axes=("tp",))],
        )
        return down_proj


class LlamaDecoderLayer(nn.Module):
    """the config: model.layers.*."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.self_attn = LlamaAttention(mesh)
        self.mlp = LlamaMLP(mesh)
        self.input_layernorm = Weights(mesh, weight=((32,), "[-]", "ones"))
        self.post_attention_layernorm = Weights(mesh, weight=((32,), "[-]", "ones"))

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.*.input_layernorm.weight, [-]:
        #   [-] as it is for input_layernorm
        #   gradient [-] +tp → [-], 256 B
        input_layernorm_weight = reshard(self.input_layernorm.weight, mesh, backward=[AllReduce(axes=("tp",))])
        # [-, tp, -]
        input_layernorm = F.rms_norm(hidden, input_layernorm_weight.shape, input_layernorm_weight, eps=1e-06)
        # model.layers.*.input_layernorm, [-, tp, -]:
        #   [-, tp, -] → [-, -, -], 16.0 KiB for q_proj, k_proj, v_proj
        #   gradient [-, -, -] +tp → [-, tp, -], 16.0 KiB
        input_layernorm = reshard(
            input_layernorm,
            mesh,
            forward=[AllGather(dim=1, axes=("tp",))],
            backward=[ReduceScatter(dim=1, axes=("tp",))],
        )
        o_proj = self.self_attn(input_layernorm, cos, sin)
        residual_attention = hidden + o_proj  # [-, tp, -]
        # model.layers.*.post_attention_layernorm.weight, [-]:
        #   [-] as it is for post_attention_layernorm
        #   gradient [-] +tp → [-], 256 B
        post_attention_layernorm_weight = reshard(
            self.post_attention_layernorm.weight,
            mesh,
            backward=[AllReduce(axes=("tp",))],
        )
        # [-, tp, -]
        post_attention_layernorm = F.rms_norm(
            residual_attention,
            post_attention_layernorm_weight.shape,
            post_attention_layernorm_weight,
            eps=1e-06,
        )
        # model.layers.*.post_attention_layernorm, [-, tp, -]:
        #   [-, tp, -] → [-, -, -], 16.0 KiB for gate_proj, up_proj
        #   gradient [-, -, -] +tp → [-, tp, -], 16.0 KiB
        post_attention_layernorm = reshard(
            post_attention_layernorm,
            mesh,
            forward=[AllGather(dim=1, axes=("tp",))],
            backward=[ReduceScatter(dim=1, axes=("tp",))],
        )
        down_proj = self.mlp(post_attention_layernorm)
        residual_mlp = residual_attention + down_proj  # [-, tp, -]
        return residual_mlp


class LlamaModel(nn.Module):
    """the config: model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.layers = nn.ModuleList([LlamaDecoderLayer(mesh) for _ in range(2)])
        self.embed_tokens = Weights(mesh, weight=((32, 32), "[tp, -]", "normal"))
        self.norm = Weights(mesh, weight=((32,), "[-]", "ones"))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # [-, -, -] +tp
        embed_tokens = ops.embedding_of_shard(tokens, self.embed_tokens.weight, first=mesh.index("tp") * 16)
        # model.embed_tokens, [-, -, -] +tp:
        #   [-, -, -] +tp → [-, tp, -], 16.0 KiB for model.layers.0-1
        #   gradient [-, tp, -] → [-, -, -], 16.0 KiB
        embed_tokens = reshard(
            embed_tokens,
            mesh,
            forward=[ReduceScatter(dim=1, axes=("tp",))],
            backward=[AllGather(dim=1, axes=("tp",))],
        )
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=mesh.device)  # [-, -], [-, -]
        hidden = embed_tokens
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        # model.norm.weight, [-]:
        #   [-] as it is for norm
        #   gradient [-] +tp → [-], 256 B
        norm_weight = reshard(self.norm.weight, mesh, backward=[AllReduce(axes=("tp",))])
        norm = F.rms_norm(hidden, norm_weight.shape, norm_weight, eps=1e-06)  # [-, tp, -]
        # model.norm, [-, tp, -]:
        #   [-, tp, -] → [-, -, -], 16.0 KiB for lm_head
        #   gradient [-, -, -] +tp → [-, tp, -], 16.0 KiB
        norm = reshard(
            norm,
            mesh,
            forward=[AllGather(dim=1, axes=("tp",))],
            backward=[ReduceScatter(dim=1, axes=("tp",))],
        )
        return norm


class LlamaForCausalLM(nn.Module):
    """the config: the whole model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.model = LlamaModel(mesh)
        self.lm_head = Weights(mesh, weight=((32, 32), "[tp, -]", "normal"))

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        norm = self.model(tokens)
        lm_head = F.linear(norm, self.lm_head.weight)  # [-, -, tp]
        row_max = ops.row_max(lm_head)  # [-, -] max(tp)
        # loss~row_max, [-, -] max(tp):
        #   [-, -] max(tp) → [-, -], 256 B for loss~sum_exp, loss~log_loss
        row_max = reshard(row_max, mesh, forward=[AllReduce(axes=("tp",), op="max")])
        sum_exp = ops.sum_exp(lm_head, row_max)  # [-, -] +tp
        # loss~sum_exp, [-, -] +tp:
        #   [-, -] +tp → [-, -], 256 B for loss~log_loss
        #   gradient [-, -] as it is
        sum_exp = reshard(sum_exp, mesh, forward=[AllReduce(axes=("tp",))])
        pick_target = ops.pick_target(lm_head, labels, first=mesh.index("tp") * 16)  # [-, -] +tp
        # loss~pick_target, [-, -] +tp:
        #   [-, -] +tp → [-, -], 256 B for loss~log_loss
        #   gradient [-, -] as it is
        pick_target = reshard(pick_target, mesh, forward=[AllReduce(axes=("tp",))])
        log_loss = ops.log_loss(sum_exp, row_max, pick_target, labels, ignore_index=-100)  # [-, -]
        sum_tokens = log_loss.sum()  # []
        count_targets = ops.count_targets(labels, ignore_index=-100)  # []
        loss = ops.divide(sum_tokens, count_targets)  # []
        return loss
