"""the config on the mesh pp:2,dp:2, one class per module.

Every tensor is this rank's shard. Comments give the layout of each result and, above each resharding call,
the plan's edge: the value, its layout, the layouts that its readers want, and the bytes passed.
"""

import torch
import torch.nn.functional as F
from torch import nn

from parallel import operators as ops
from parallel.mesh import Mesh
from parallel.parameters import Update, Weights
from parallel.reshard import reshard
from parallel.steps import AllGather, AllReduce, Slice


class LlamaAttention(nn.Module):
    """the config: model.layers.0-1.self_attn; the same for model.layers.2-3.self_attn."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.q_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32, 32), "[-, -]", "normal"),
        )
        self.k_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((16, 32), "[-, -]", "normal"),
        )
        self.v_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((16, 32), "[-, -]", "normal"),
        )
        self.o_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32, 32), "[-, -]", "normal"),
        )

    def forward(self, input_layernorm: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.0-1.self_attn.q_proj.weight, [-, -]:
        #   [-, -] as it is for q_proj
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        q_proj_weight = reshard(self.q_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        q_proj = F.linear(input_layernorm, q_proj_weight)  # [dp, -, -]
        split_q = q_proj.unflatten(2, (8, 4)).transpose(1, 2)  # [dp, -, -, -]
        rotary_q = ops.rotate(split_q, cos, sin)  # [dp, -, -, -]
        # model.layers.0-1.self_attn.k_proj.weight, [-, -]:
        #   [-, -] as it is for k_proj
        #   gradient [-, -] +dp → [-, -], 4.0 KiB
        k_proj_weight = reshard(self.k_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        k_proj = F.linear(input_layernorm, k_proj_weight)  # [dp, -, -]
        split_k = k_proj.unflatten(2, (4, 4)).transpose(1, 2)  # [dp, -, -, -]
        rotary_k = ops.rotate(split_k, cos, sin)  # [dp, -, -, -]
        # model.layers.0-1.self_attn.v_proj.weight, [-, -]:
        #   [-, -] as it is for v_proj
        #   gradient [-, -] +dp → [-, -], 4.0 KiB
        v_proj_weight = reshard(self.v_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        v_proj = F.linear(input_layernorm, v_proj_weight)  # [dp, -, -]
        split_v = v_proj.unflatten(2, (4, 4)).transpose(1, 2)  # [dp, -, -, -]
        attention = ops.causal_attention(rotary_q, rotary_k, split_v)  # [dp, -, -, -]
        merge_heads = attention.transpose(1, 2).flatten(2)  # [dp, -, -]
        # model.layers.0-1.self_attn.o_proj.weight, [-, -]:
        #   [-, -] as it is for o_proj
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        o_proj_weight = reshard(self.o_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        o_proj = F.linear(merge_heads, o_proj_weight)  # [dp, -, -]
        return o_proj


class LlamaMLP(nn.Module):
    """the config: model.layers.0-1.mlp; the same for model.layers.2-3.mlp."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.gate_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((48, 32), "[-, -]", "normal"),
        )
        self.up_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((48, 32), "[-, -]", "normal"),
        )
        self.down_proj = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32, 48), "[-, -]", "normal"),
        )

    def forward(self, post_attention_layernorm: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.0-1.mlp.gate_proj.weight, [-, -]:
        #   [-, -] as it is for gate_proj
        #   gradient [-, -] +dp → [-, -], 12.0 KiB
        gate_proj_weight = reshard(self.gate_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        gate_proj = F.linear(post_attention_layernorm, gate_proj_weight)  # [dp, -, -]
        # model.layers.0-1.mlp.up_proj.weight, [-, -]:
        #   [-, -] as it is for up_proj
        #   gradient [-, -] +dp → [-, -], 12.0 KiB
        up_proj_weight = reshard(self.up_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        up_proj = F.linear(post_attention_layernorm, up_proj_weight)  # [dp, -, -]
        swiglu = F.silu(gate_proj) * up_proj  # [dp, -, -]
        # model.layers.0-1.mlp.down_proj.weight, [-, -]:
        #   [-, -] as it is for down_proj
        #   gradient [-, -] +dp → [-, -], 12.0 KiB
        down_proj_weight = reshard(self.down_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        down_proj = F.linear(swiglu, down_proj_weight)  # [dp, -, -]
        return down_proj


class LlamaDecoderLayer(nn.Module):
    """the config: model.layers.0-1; the same for model.layers.2-3."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.self_attn = LlamaAttention(mesh)
        self.mlp = LlamaMLP(mesh)
        self.input_layernorm = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32,), "[-]", "ones"),
        )
        self.post_attention_layernorm = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32,), "[-]", "ones"),
        )

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.layers.0-1.input_layernorm.weight, [-]:
        #   [-] as it is for input_layernorm
        #   gradient [-] +dp → [-], 256 B
        input_layernorm_weight = reshard(self.input_layernorm.weight, mesh, backward=[AllReduce(axes=("dp",))])
        # [dp, -, -]
        input_layernorm = F.rms_norm(hidden, input_layernorm_weight.shape, input_layernorm_weight, eps=1e-06)
        o_proj = self.self_attn(input_layernorm, cos, sin)
        residual_attention = hidden + o_proj  # [dp, -, -]
        # model.layers.0-1.post_attention_layernorm.weight, [-]:
        #   [-] as it is for post_attention_layernorm
        #   gradient [-] +dp → [-], 256 B
        post_attention_layernorm_weight = reshard(
            self.post_attention_layernorm.weight,
            mesh,
            backward=[AllReduce(axes=("dp",))],
        )
        # [dp, -, -]
        post_attention_layernorm = F.rms_norm(
            residual_attention,
            post_attention_layernorm_weight.shape,
            post_attention_layernorm_weight,
            eps=1e-06,
        )
        down_proj = self.mlp(post_attention_layernorm)
        residual_mlp = residual_attention + down_proj  # [dp, -, -]
        return residual_mlp


class LlamaModelStage0(nn.Module):
    """the config: model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.layers = nn.ModuleList([LlamaDecoderLayer(mesh) for _ in range(2)])
        self.embed_tokens = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32, 32), "[-, -]", "normal"),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # model.embed_tokens.weight, [-, -]:
        #   [-, -] as it is for embed_tokens
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        embed_tokens_weight = reshard(self.embed_tokens.weight, mesh, backward=[AllReduce(axes=("dp",))])
        embed_tokens = F.embedding(tokens, embed_tokens_weight)  # [dp, -, -]
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=mesh.device)  # [-, -], [-, -]
        hidden = embed_tokens
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return hidden


class LlamaForCausalLMStage0(nn.Module):
    """the config: stage 0 of the model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.model = LlamaModelStage0(mesh)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.model(tokens)
        return hidden


class LlamaModelStage1(nn.Module):
    """the config: model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.layers = nn.ModuleDict({str(layer): LlamaDecoderLayer(mesh) for layer in range(2, 4)})
        self.embed_tokens = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp, -]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32, 32), "[-, -]", "normal"),
        )
        self.norm = Weights(
            mesh,
            {
                "weight": Update(
                    state="[dp]",
                    master=[Slice(dim=0, axes=("dp",))],
                    reduce=[Slice(dim=0, axes=("dp",))],
                    publish=[AllGather(dim=0, axes=("dp",))],
                ),
            },
            weight=((32,), "[-]", "ones"),
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=mesh.device)  # [-, -], [-, -]
        hidden_2 = hidden
        for layer in self.layers.values():
            hidden_2 = layer(hidden_2, cos, sin)
        # model.norm.weight, [-]:
        #   [-] as it is for norm
        #   gradient [-] +dp → [-], 256 B
        norm_weight = reshard(self.norm.weight, mesh, backward=[AllReduce(axes=("dp",))])
        norm = F.rms_norm(hidden_2, norm_weight.shape, norm_weight, eps=1e-06)  # [dp, -, -]
        return norm


class LlamaForCausalLMStage1(nn.Module):
    """the config: stage 1 of the model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.model = LlamaModelStage1(mesh)

    def forward(self, labels: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        norm = self.model(hidden)
        # model.embed_tokens.weight, [-, -]:
        #   [-, -] as it is for lm_head
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        embed_tokens_weight = reshard(self.model.embed_tokens.weight, mesh, backward=[AllReduce(axes=("dp",))])
        lm_head = F.linear(norm, embed_tokens_weight)  # [dp, -, -]
        token_loss = ops.token_loss(lm_head, labels, ignore_index=-100)  # [dp, -]
        sum_tokens = token_loss.sum()  # [] +dp
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
