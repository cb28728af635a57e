"""The stages of the config, cut out of the model, and the order in which they run."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from model import LlamaForCausalLM, LlamaModel
from parallel import operators as ops
from parallel.native_stages import Loss, Stages
from parallelize import parallelize


class LlamaModelStage0(nn.Module):
    """the config: what stage 0 runs of model."""

    def __init__(self, model: LlamaModel, layers: range) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(index): model.layers[index] for index in layers})
        self.embed_tokens = model.embed_tokens

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embed_tokens = self.embed_tokens(tokens)
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=tokens.device)
        hidden = embed_tokens
        for layer in self.layers.values():
            hidden = layer(hidden, cos, sin)
        return hidden


class LlamaForCausalLMStage0(nn.Module):
    """the config: what stage 0 runs of the model."""

    def __init__(self, model: LlamaForCausalLM, layers: range) -> None:
        super().__init__()
        self.model = LlamaModelStage0(model.model, layers)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.model(tokens)
        return hidden


class LlamaModelStage1(nn.Module):
    """the config: what stage 1 runs of model."""

    def __init__(self, model: LlamaModel, layers: range) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(index): model.layers[index] for index in layers})
        self.norm = model.norm

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        cos, sin = ops.rotary_table(8, 4, 10000.0, first=0, device=hidden.device)
        for layer in self.layers.values():
            hidden = layer(hidden, cos, sin)
        norm = self.norm(hidden)
        return norm


class LlamaForCausalLMStage1(nn.Module):
    """the config: what stage 1 runs of the model."""

    def __init__(self, model: LlamaForCausalLM, layers: range) -> None:
        super().__init__()
        self.model = LlamaModelStage1(model.model, layers)
        self.lm_head = model.lm_head

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        norm = self.model(hidden)
        lm_head = self.lm_head(norm)
        return lm_head


STAGES = (LlamaForCausalLMStage0, LlamaForCausalLMStage1)
# The layers that each of them takes.
LAYERS = (range(2), range(2, 4))
# Where along pp each of them lies.
PLACES = (0, 1)
# The inputs that the first one takes.
TAKEN = ("tokens",)
# Parameters that several stages hold, by the names that they have there.
SHARED: Mapping[str, Mapping[int, str]] = {
    "model.embed_tokens.weight": {0: "model.embed_tokens.weight", 1: "lm_head.weight"},
}
# What goes into each stage, and in the end comes out of the last: of one microbatch, on one rank.
PASSED = (
    (torch.empty(1, 8, dtype=torch.int64, device="meta"),),
    (torch.empty(1, 4, 32, dtype=torch.float64, device="meta", requires_grad=True),),
    (torch.empty(1, 8, 16, dtype=torch.float64, device="meta", requires_grad=True),),
)


def loss(lm_head: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the sum of the losses of a microbatch."""
    return F.cross_entropy(lm_head.flatten(0, -2), labels.flatten(), reduction="sum", ignore_index=-100)


def schedule(stages: Mapping[int, nn.Module], mesh: DeviceMesh, loss: Loss) -> Schedule1F1B:
    """Return what runs this rank's stages in their order."""
    device, group = torch.device(mesh.device_type), mesh.get_group("pp")
    made = [
        PipelineStage(
            module,
            index,
            len(STAGES),
            device,
            input_args=PASSED[index],
            output_args=PASSED[index + 1],
            group=group,
        )
        for index, module in stages.items()
    ]
    # Losses are divided by the targets of the whole step, so microbatches are summed and not averaged.
    return Schedule1F1B(made[0], n_microbatches=4, loss_fn=loss, scale_grads=False)


def in_stages(model: LlamaForCausalLM, mesh: DeviceMesh) -> Stages:
    """Cut a model, whose parameters are on the meta device, and spread this rank's stages over ranks."""
    here = mesh.get_local_rank("pp")
    numbers = [number for number, place in enumerate(PLACES) if place == here]
    own = {number: parallelize(STAGES[number](model, LAYERS[number]), mesh) for number in numbers}
    return Stages(
        own,
        mesh,
        dim="pp",
        places=PLACES,
        taken=TAKEN,
        schedule=schedule,
        loss=loss,
        shared=SHARED,
    )
