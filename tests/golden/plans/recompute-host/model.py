"""the config on the mesh dp:2, one class per module.

Every tensor is this rank's shard. Comments give the layout of each result and, above each resharding call,
the plan's edge: the value, its layout, the layouts that its readers want, and the bytes passed.
"""

import torch
import torch.nn.functional as F
from torch import nn

from parallel import operators as ops
from parallel.mesh import Mesh
from parallel.parameters import Update, Weights
from parallel.recompute import recompute
from parallel.reshard import reshard
from parallel.steps import AllReduce


class GPT2Attention(nn.Module):
    """the config: transformer.h.*.attn."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.c_attn = Weights(
            mesh,
            {
                "weight": Update(state="[-, -, -]", state_place="host"),
                "bias": Update(state="[-, -]", state_place="host"),
            },
            weight=((32, 3, 32), "[-, -, -]", "normal"),
            bias=((3, 32), "[-, -]", "zeros"),
        )
        self.c_proj = Weights(
            mesh,
            {"weight": Update(state="[-, -]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((32, 32), "[-, -]", "normal"),
            bias=((32,), "[-]", "zeros"),
        )

    def forward(self, ln_1: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # transformer.h.*.attn.c_attn.weight, [-, -, -]:
        #   [-, -, -] as it is for c_attn
        #   gradient [-, -, -] +dp → [-, -, -], 24.0 KiB
        c_attn_weight = reshard(self.c_attn.weight, mesh, backward=[AllReduce(axes=("dp",))])
        c_attn = torch.einsum("bsk,kpn->bspn", ln_1, c_attn_weight)  # [dp, -, -, -]
        # transformer.h.*.attn.c_attn.bias, [-, -]:
        #   [-, -] as it is for c_attn_bias
        #   gradient [-, -] +dp → [-, -], 768 B
        c_attn_bias = reshard(self.c_attn.bias, mesh, backward=[AllReduce(axes=("dp",))])
        attn_c_attn_bias = c_attn + c_attn_bias  # [dp, -, -, -]
        pick_q = attn_c_attn_bias.select(2, 0)  # [dp, -, -]
        split_q = pick_q.unflatten(2, (8, 4)).transpose(1, 2)  # [dp, -, -, -]
        pick_k = attn_c_attn_bias.select(2, 1)  # [dp, -, -]
        split_k = pick_k.unflatten(2, (8, 4)).transpose(1, 2)  # [dp, -, -, -]
        pick_v = attn_c_attn_bias.select(2, 2)  # [dp, -, -]
        split_v = pick_v.unflatten(2, (8, 4)).transpose(1, 2)  # [dp, -, -, -]
        attention = ops.causal_attention(split_q, split_k, split_v)  # [dp, -, -, -]
        merge_heads = attention.transpose(1, 2).flatten(2)  # [dp, -, -]
        # transformer.h.*.attn.c_proj.weight, [-, -]:
        #   [-, -] as it is for c_proj
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        c_proj_weight = reshard(self.c_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        c_proj = torch.matmul(merge_heads, c_proj_weight)  # [dp, -, -]
        # transformer.h.*.attn.c_proj.bias, [-]:
        #   [-] as it is for c_proj_bias
        #   gradient [-] +dp → [-], 256 B
        c_proj_bias = reshard(self.c_proj.bias, mesh, backward=[AllReduce(axes=("dp",))])
        attn_c_proj_bias = c_proj + c_proj_bias  # [dp, -, -]
        return attn_c_proj_bias


class GPT2MLP(nn.Module):
    """the config: transformer.h.*.mlp."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.c_fc = Weights(
            mesh,
            {"weight": Update(state="[-, -]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((32, 48), "[-, -]", "normal"),
            bias=((48,), "[-]", "zeros"),
        )
        self.c_proj = Weights(
            mesh,
            {"weight": Update(state="[-, -]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((48, 32), "[-, -]", "normal"),
            bias=((32,), "[-]", "zeros"),
        )

    def forward(self, ln_2: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # transformer.h.*.mlp.c_fc.weight, [-, -]:
        #   [-, -] as it is for c_fc
        #   gradient [-, -] +dp → [-, -], 12.0 KiB
        c_fc_weight = reshard(self.c_fc.weight, mesh, backward=[AllReduce(axes=("dp",))])
        c_fc = torch.matmul(ln_2, c_fc_weight)  # [dp, -, -]
        # transformer.h.*.mlp.c_fc.bias, [-]:
        #   [-] as it is for c_fc_bias
        #   gradient [-] +dp → [-], 384 B
        c_fc_bias = reshard(self.c_fc.bias, mesh, backward=[AllReduce(axes=("dp",))])
        mlp_c_fc_bias = c_fc + c_fc_bias  # [dp, -, -]
        act = F.gelu(mlp_c_fc_bias, approximate="tanh")  # [dp, -, -]
        # transformer.h.*.mlp.c_proj.weight, [-, -]:
        #   [-, -] as it is for c_proj
        #   gradient [-, -] +dp → [-, -], 12.0 KiB
        c_proj_weight = reshard(self.c_proj.weight, mesh, backward=[AllReduce(axes=("dp",))])
        c_proj = torch.matmul(act, c_proj_weight)  # [dp, -, -]
        # transformer.h.*.mlp.c_proj.bias, [-]:
        #   [-] as it is for c_proj_bias
        #   gradient [-] +dp → [-], 256 B
        c_proj_bias = reshard(self.c_proj.bias, mesh, backward=[AllReduce(axes=("dp",))])
        mlp_c_proj_bias = c_proj + c_proj_bias  # [dp, -, -]
        return mlp_c_proj_bias


class GPT2Block(nn.Module):
    """the config: transformer.h.*."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.attn = GPT2Attention(mesh)
        self.mlp = GPT2MLP(mesh)
        self.ln_1 = Weights(
            mesh,
            {"weight": Update(state="[-]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((32,), "[-]", "ones"),
            bias=((32,), "[-]", "zeros"),
        )
        self.ln_2 = Weights(
            mesh,
            {"weight": Update(state="[-]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((32,), "[-]", "ones"),
            bias=((32,), "[-]", "zeros"),
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # transformer.h.*.ln_1.weight, [-]:
        #   [-] as it is for ln_1
        #   gradient [-] +dp → [-], 256 B
        ln_1_weight = reshard(self.ln_1.weight, mesh, backward=[AllReduce(axes=("dp",))])
        # transformer.h.*.ln_1.bias, [-]:
        #   [-] as it is for ln_1
        #   gradient [-] +dp → [-], 256 B
        ln_1_bias = reshard(self.ln_1.bias, mesh, backward=[AllReduce(axes=("dp",))])
        ln_1 = F.layer_norm(hidden, (32,), ln_1_weight, ln_1_bias, eps=1e-05)  # [dp, -, -]
        c_proj_bias = self.attn(ln_1)
        residual_attention = hidden + c_proj_bias  # [dp, -, -]
        # transformer.h.*.ln_2.weight, [-]:
        #   [-] as it is for ln_2
        #   gradient [-] +dp → [-], 256 B
        ln_2_weight = reshard(self.ln_2.weight, mesh, backward=[AllReduce(axes=("dp",))])
        # transformer.h.*.ln_2.bias, [-]:
        #   [-] as it is for ln_2
        #   gradient [-] +dp → [-], 256 B
        ln_2_bias = reshard(self.ln_2.bias, mesh, backward=[AllReduce(axes=("dp",))])
        ln_2 = F.layer_norm(residual_attention, (32,), ln_2_weight, ln_2_bias, eps=1e-05)  # [dp, -, -]
        mlp_c_proj_bias = self.mlp(ln_2)
        residual_mlp = residual_attention + mlp_c_proj_bias  # [dp, -, -]
        return residual_mlp


class GPT2Model(nn.Module):
    """the config: transformer."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.h = nn.ModuleList([GPT2Block(mesh) for _ in range(2)])
        self.wte = Weights(
            mesh,
            {"weight": Update(state="[-, -]", state_place="host")},
            weight=((32, 32), "[-, -]", "normal"),
        )
        self.wpe = Weights(
            mesh,
            {"weight": Update(state="[-, -]", state_place="host")},
            weight=((64, 32), "[-, -]", "normal"),
        )
        self.ln_f = Weights(
            mesh,
            {"weight": Update(state="[-]", state_place="host"), "bias": Update(state="[-]", state_place="host")},
            weight=((32,), "[-]", "ones"),
            bias=((32,), "[-]", "zeros"),
        )

    def forward(self, tokens: torch.Tensor, wte_weight: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        wte = F.embedding(tokens, wte_weight)  # [dp, -, -]
        positions = torch.arange(8, device=mesh.device)  # [-]
        wpe = self.wpe.weight.index_select(0, positions)  # [-, -]
        # transformer.wpe, [-, -]:
        #   [-, -] as it is for add_positions
        #   gradient [-, -] +dp → [-, -], 2.0 KiB
        wpe = reshard(wpe, mesh, backward=[AllReduce(axes=("dp",))])
        add_positions = wte + wpe  # [dp, -, -]
        hidden = add_positions
        for layer in self.h:
            hidden = recompute(layer, mesh, hidden)
        # transformer.ln_f.weight, [-]:
        #   [-] as it is for ln_f
        #   gradient [-] +dp → [-], 256 B
        ln_f_weight = reshard(self.ln_f.weight, mesh, backward=[AllReduce(axes=("dp",))])
        # transformer.ln_f.bias, [-]:
        #   [-] as it is for ln_f
        #   gradient [-] +dp → [-], 256 B
        ln_f_bias = reshard(self.ln_f.bias, mesh, backward=[AllReduce(axes=("dp",))])
        ln_f = F.layer_norm(hidden, (32,), ln_f_weight, ln_f_bias, eps=1e-05)  # [dp, -, -]
        return ln_f


class GPT2LMHeadModel(nn.Module):
    """the config: the whole model."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self.transformer = GPT2Model(mesh)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mesh = self.mesh
        # transformer.wte.weight, [-, -]:
        #   [-, -] as it is for wte, lm_head
        #   gradient [-, -] +dp → [-, -], 8.0 KiB
        wte_weight = reshard(self.transformer.wte.weight, mesh, backward=[AllReduce(axes=("dp",))])
        ln_f = self.transformer(tokens, wte_weight)
        lm_head = F.linear(ln_f, wte_weight)  # [dp, -, -]
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
