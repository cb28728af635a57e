"""What torch itself counts of a model: parameters, FLOPs of its products, and what autograd keeps.

Forward FLOPs are those that `FlopCounterMode` counts while the exported model runs on the meta device; backward FLOPs
and what is kept come from the joint graph of forward and backward on fake CPU tensors. There, attention is one operator
that keeps q, k, v, its result and a number a query, as flash attention does, and RMSNorm one that keeps its operand and
a number a row, as torch's own does on a GPU; nothing else is put in place of what the model says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import getitem
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from planner.importers.bundled import zoo_source
from planner.importers.modules import KIND, read_source
from planner.importers.modules.tracing import example_inputs, make_module
from planner.importers.tracing.buffers import to_meta
from planner.importers.tracing.hf import build_model
from planner.importers.tracing.trace import WithLoss

Inputs = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """What the graph of forward and backward does and keeps, without attention's products.

    Parameters
    ----------
    kept
        Bytes that forward hands to backward: every storage once, without parameters, inputs and buffers, and without
        what the one operator of attention keeps.
    attention
        Bytes that attention keeps: its operands, its result and a number a query.
    """

    forward: float
    backward: float
    kept: float
    attention: float


@torch.library.custom_op("zoo::attention", mutates_args=())
def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Stand for a kernel that gives what attention gives, and a number a query in float32."""
    return q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("zoo::attention_backward", mutates_args=())
def fused_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Stand for its backward."""
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


@fused_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    # As flash attention gives it: queries outside of heads.
    batch, heads, queries, _ = q.shape
    out = q.new_empty(batch, queries, heads, v.shape[-1]).transpose(1, 2)
    return out, q.new_empty(q.shape[:-1], dtype=torch.float32)


@fused_attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output)
    ctx.mark_non_differentiable(output[1])


def _back(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return fused_attention_backward(grad, *ctx.saved_tensors)


fused_attention.register_autograd(_back, setup_context=_keep)


@torch.library.custom_op("zoo::rms_norm", mutates_args=())
def fused_norm(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Stand for a kernel that gives what RMSNorm gives, and a number a row in float32."""
    return torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("zoo::rms_norm_backward", mutates_args=())
def fused_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Stand for its backward."""
    return torch.empty_like(x), torch.empty_like(weight)


@fused_norm.register_fake
def _(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


@fused_norm_backward.register_fake
def _(grad: Tensor, x: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(weight)


def _keep_norm(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, output[1])
    ctx.mark_non_differentiable(output[1])


def _back_norm(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    return fused_norm_backward(grad, *ctx.saved_tensors)


fused_norm.register_autograd(_back_norm, setup_context=_keep_norm)


def with_fused_norms(model: nn.Module) -> nn.Module:
    """Let every RMSNorm of a model be one operator, and GELU by its series of tanh the one that torch has."""
    for part in model.modules():
        kind = type(part).__name__
        if kind == "NewGELUActivation":
            part.forward = partial(nn.functional.gelu, approximate="tanh")  # type: ignore[method-assign]
        if (kind.endswith("RMSNorm") or kind == "T5LayerNorm") and getattr(part, "weight", None) is not None:
            part.forward = MethodType(lambda self, x: fused_norm(x, self.weight)[0], part)  # type: ignore[method-assign]
    return model


def model_and_inputs(
    name: str, batch: int, seq: int, dtype: torch.dtype, change: Mapping[str, object] = {}
) -> tuple[WithLoss, Inputs]:
    """Return a model of the zoo with its loss, and inputs, on the meta device.

    Parameters
    ----------
    change
        Values of the config, or arguments, to be others, e.g. fewer layers.
    """
    source = zoo_source(name)
    values: dict[str, Any] = json.loads(source.content)
    if source.kind == KIND:
        values["arguments"] |= change
        read = read_source(json.dumps(values), name)
        with torch.device("meta"):
            return WithLoss(make_module(read).to(dtype), lambda m, *given: m(*given)), example_inputs(
                read, dtype, batch
            )
    model, head, _ = build_model(values | change, name, dtype)
    to_meta(model)
    sizes = {"B": batch, "S": seq}
    inputs = {
        key: torch.zeros(
            [sizes.get(n, n) for n in shape], dtype=dtype if kind.is_floating_point else kind, device="meta"
        )
        for key, (shape, kind) in head.inputs(model.config, type(model)).items()
    }  # fmt: skip
    return WithLoss(model, head.run), inputs


def parameters(module: nn.Module) -> int:
    """Return how many numbers all parameters have, shared ones once."""
    return sum(p.numel() for p in module.parameters())


def forward_flops(module: nn.Module, inputs: Inputs) -> float:
    """Return the FLOPs of all products, attention as products over the whole square."""
    exported = export(module, tuple(inputs.values()), strict=False).module()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        exported(*inputs.values())
    return float(counter.get_total_flops())


def joint(module: nn.Module, inputs: Inputs) -> Joint:
    """Return what the joint graph of a model does and keeps."""
    exported = export(module, tuple(inputs.values()), strict=False).module()
    _to_cpu(exported)
    mode = FakeTensorMode()
    only = _Only(exported)
    with mode, ExitStack() as stack:
        held: dict[int, Tensor] = {}

        def fake(tensor: Tensor) -> Tensor:
            if id(tensor) not in held:
                held[id(tensor)] = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu", requires_grad=tensor.requires_grad
                )
                if isinstance(tensor, nn.Parameter):
                    held[id(tensor)] = nn.Parameter(held[id(tensor)].detach(), requires_grad=tensor.requires_grad)
            return held[id(tensor)]

        for part in only.modules():
            for key, p in part._parameters.items():
                part._parameters[key] = None if p is None else fake(p)
            for key, b in part._buffers.items():
                part._buffers[key] = None if b is None else fake(b)
        made = aot_export_joint_with_descriptors(
            stack, only, tuple(fake(x) for x in inputs.values()), decompositions={}
        )
        return _counts(made.graph_module)


def _to_cpu(exported: torch.fx.GraphModule) -> None:
    """Let a graph of the meta device run on the CPU, with attention as one operator."""
    for node in list(exported.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            exported.graph.erase_node(node)
            continue
        node.kwargs = {k: torch.device("cpu") if isinstance(v, torch.device) else v for k, v in node.kwargs.items()}
        node.args = tuple(torch.device("cpu") if isinstance(v, torch.device) else v for v in node.args)
        if node.target is torch.ops.aten.histc.default:
            # The CPU has no histogram of whole numbers.
            with exported.graph.inserting_before(node):
                wide = exported.graph.call_function(torch.ops.aten.to.dtype, (node.args[0], torch.float32))
            node.args = (wide, *node.args[1:])
        if node.target is torch.ops.aten.scaled_dot_product_attention.default:
            with exported.graph.inserting_before(node):
                call = exported.graph.call_function(torch.ops.zoo.attention.default, node.args[:3])
                first = exported.graph.call_function(getitem, (call, 0))
            node.replace_all_uses_with(first)
            exported.graph.erase_node(node)
    exported.recompile()


class _Only(nn.Module):
    """A model's loss alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.inner(*inputs)[0]


def _counts(graph: torch.fx.GraphModule) -> Joint:
    flops = {True: 0.0, False: 0.0}
    kept: dict[int, int] = {}
    outside = {_storage(node) for node in graph.graph.nodes if node.op == "placeholder"}
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        back = _is_backward(node)
        packet = getattr(node.target, "overloadpacket", None)
        if packet in flop_registry:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            if packet is torch.ops.aten.convolution_backward and args[9] > 1:
                # Torch takes the gradient of a weight as if there were one group; each gradient is as much as forward.
                flops[back] += sum(args[10][:2]) * 2.0 * args[0].numel() * prod(args[2].shape[1:])
            else:
                flops[back] += flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
        if not back and any(_is_backward(user) for user in node.users):
            value = node.meta.get("val")
            if isinstance(value, Tensor) and _storage(node) not in outside:
                kept[_storage(node)] = value.untyped_storage().nbytes()
    closed = {
        _storage(operand)
        for node in graph.graph.nodes if node.target is torch.ops.zoo.attention_backward.default
        for operand in _originals(node)
    }  # fmt: skip
    attention = sum(size for storage, size in kept.items() if storage in closed)
    return Joint(
        forward=flops[False], backward=flops[True], kept=float(sum(kept.values()) - attention),
        attention=float(attention),
    )  # fmt: skip


def _originals(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return what attention's backward reads, and what those are other names of."""
    found = [operand for operand in node.all_input_nodes[1:]]
    for operand in found:
        if operand.target is torch.ops.aten.detach.default:
            found.append(operand.all_input_nodes[0])
    return found


def _is_backward(node: torch.fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward"


def _storage(node: torch.fx.Node) -> int:
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, Tensor) else id(node)
