"""Train the config by the plan in plan.json; the files in launch/ start it."""

from model import LlamaForCausalLM
from parallel.data import Feed
from parallel.native import Settings, main
from parallelize import device_mesh, parallelize

MODEL = LlamaForCausalLM
SETTINGS = Settings(
    data=("dp",),
    samples=8,
    microbatches=1,
    labels="labels",
    ignored=-100,
    dtype="float64",
    sync_each=True,
    vocab_sharded=True,
    ones=(
        "model.norm.weight",
        "model.layers.*.input_layernorm.weight",
        "model.layers.*.post_attention_layernorm.weight",
    ),
    inputs=(
        Feed(name="tokens", shape=(8, 8), dtype="int64", layout="[dp, -]", kind="integers", high=32, samples=0),
        Feed(
            name="labels",
            shape=(8, 8),
            dtype="int64",
            layout="[dp, -]",
            kind="next",
            next_of="tokens",
            ignored=-100,
            samples=0,
        ),
    ),
)

if __name__ == "__main__":
    main(MODEL, parallelize, device_mesh, SETTINGS)
