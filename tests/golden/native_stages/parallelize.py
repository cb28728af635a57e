"""How the config lies on the mesh pp:2,dp:2,tp:2."""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

MODEL_PLAN: dict[str, ParallelStyle] = {
    "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "model.norm": SequenceParallel(use_local_output=True),
    "lm_head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
}
MODEL_LAYERS_0_3_PLAN: dict[str, ParallelStyle] = {
    "input_layernorm": SequenceParallel(use_local_output=True),
    "self_attn.q_proj": ColwiseParallel(),
    "self_attn.k_proj": ColwiseParallel(),
    "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(output_layouts=Shard(1)),
    "post_attention_layernorm": SequenceParallel(use_local_output=True),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(output_layouts=Shard(1)),
    "self_attn": PrepareModuleInput(
        input_layouts=(Shard(1), None, None),
        desired_input_layouts=(Replicate(), None, None),
    ),
    "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
}


def device_mesh(device_type: str) -> DeviceMesh:
    """Return the mesh of all ranks."""
    return init_device_mesh(device_type, (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Spread one stage of a model, whose parameters may be on the meta device, over the mesh."""
    held = dict(model.named_modules())
    tp = mesh["tp"]
    parallelize_module(model, tp, {path: style for path, style in MODEL_PLAN.items() if path in held})
    for index in range(4):
        if f"model.layers.{index}" in held:
            parallelize_module(held[f"model.layers.{index}"], tp, MODEL_LAYERS_0_3_PLAN)
    data = mesh["dp"]
    for layer in model.get_submodule("model.layers").children():
        fully_shard(layer, mesh=data, reshard_after_forward=True)
    fully_shard(model, mesh=data, reshard_after_forward=True)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Losses are divided by the targets of all ranks, so gradients are summed and not averaged.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return model
