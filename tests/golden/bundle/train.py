"""Train the config by the plan in plan.json; launch.sh starts it."""

from parallel.data import Feed
from parallel.trainer import Settings, main

from model import LlamaForCausalLM

MODEL = LlamaForCausalLM
SETTINGS = Settings(
    mesh={"dp": 2, "tp": 2},
    samples=8,
    microbatches=1,
    dtype="float64",
    regather=True,
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
    main(MODEL, SETTINGS)
