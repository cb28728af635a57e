"""the config, as one device would run it; parallelize.py spreads it over ranks."""

import torch
import torch.nn.functional as F
from torch import nn

from parallel import operators as ops


class LlamaAttention(nn.Module):
    """the config: model.layers.*.self_attn."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(32, 32, bias=False)
        self.k_proj = nn.Linear(32, 16, bias=False)
        self.v_proj = nn.Linear(32, 16, bias=False)
        self.o_proj = nn.Linear(32, 32, bias=False)

    def forward(self, input_layernorm: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q_proj = self.q_proj(input_layernorm)
        split_q = q_proj.unflatten(2, (-1, 4)).transpose(1, 2)
        rotary_q = ops.rotate(split_q, cos, sin)
        k_proj = self.k_proj(input_layernorm)
        split_k = k_proj.unflatten(2, (-1, 4)).transpose(1, 2)
        rotary_k = ops.rotate(split_k, cos, sin)
        v_proj = self.v_proj(input_layernorm)
        split_v = v_proj.unflatten(2, (-1, 4)).transpose(1, 2)
        attention = ops.causal_attention(rotary_q, rotary_k, split_v)
        merge_heads = attention.transpose(1, 2).flatten(2)
        o_proj = self.o_proj(merge_heads)
        return o_proj


class LlamaMLP(nn.Module):
    """the config: model.layers.*.mlp."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(32, 48, bias=False)
        self.up_proj = nn.Linear(32, 48, bias=False)
        self.down_proj = nn.Linear(48, 32, bias=False)

    def forward(self, post_attention_layernorm: torch.Tensor) -> torch.Tensor:
        gate_proj = self.gate_proj(post_attention_layernorm)
        up_proj = self.up_proj(post_attention_layernorm)
        swiglu = F.silu(gate_proj) * up_proj
        down_proj = self.down_proj(swiglu)
        return down_proj


class LlamaDecoderLayer(nn.Module):
    """the config: model.layers.*."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = LlamaAttention()
        self.mlp = LlamaMLP()
        self.input_layernorm = nn.RMSNorm(32, eps=1e-06)
        self.post_attention_layernorm = nn.RMSNorm(32, eps=1e-06)

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        input_layernorm = self.input_layernorm(hidden)
        o_proj = self.self_attn(input_layernorm, cos, sin)
        residual_attention = hidden + o_proj
        post_attention_layernorm = self.post_attention_layernorm(residual_attention)
        down_proj = self.mlp(post_attention_layernorm)
        residual_mlp = residual_attention + down_proj
        return residual_mlp


class LlamaModel(nn.Module):
    """the config: model."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([LlamaDecoderLayer() for _ in range(2)])
        self.embed_tokens = nn.Embedding(32, 32)
        self.norm = nn.RMSNorm(32, eps=1e-06)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embed_tokens = self.embed_tokens(tokens)
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=tokens.device)
        hidden = embed_tokens
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        norm = self.norm(hidden)
        return norm


class LlamaForCausalLM(nn.Module):
    """the config: the whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = LlamaModel()
        self.lm_head = nn.Linear(32, 32, bias=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        norm = self.model(tokens)
        lm_head = self.lm_head(norm)
        loss = F.cross_entropy(lm_head.flatten(0, -2), labels.flatten(), reduction="sum", ignore_index=-100)
        return loss
