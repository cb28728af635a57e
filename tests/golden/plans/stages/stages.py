"""The stages of the config and their order, zb-h1: one row of schedule.csv for each rank."""

from pathlib import Path

from model import LlamaForCausalLMStage0, LlamaForCausalLMStage1
from parallel.stages import Chain, Pipeline, Stage, Wire

PIPELINE = Pipeline(
    axis="pp",
    stages=(
        Stage(build=LlamaForCausalLMStage0, takes=("tokens",), gives=("model.layers.0-1@stage1",)),
        Stage(build=LlamaForCausalLMStage1, takes=("labels", "model.layers.0-1@stage1"), gives=("loss",)),
    ),
    wires=(
        Wire(value="model.layers.0-1@stage1", source=0, target=1, shape=(2, 8, 32), layout="[dp, -, -]"),
    ),
    rows=tuple(Path(__file__).with_name("schedule.csv").read_text("utf-8").splitlines()),
    placement=(0, 1),
    chains=(
        Chain(stages=(0, 1), microbatches=(0, 1, 2, 3)),
    ),
    shared={
        "model.embed_tokens.weight": (0, 1),
    },
    groups=(("dp",),),
)
