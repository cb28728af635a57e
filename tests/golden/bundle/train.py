"""Train the config by the plan in plan.json; launch.sh starts it."""

from parallel.trainer import Settings, main

from model import LlamaForCausalLM

MODEL = LlamaForCausalLM
SETTINGS = Settings(
    mesh={"dp": 2, "tp": 2},
    sequences=8,
    length=8,
    vocab=32,
    microbatches=1,
    inputs=("[dp, -]", "[dp, -]"),
    dtype="float64",
    regather=True,
)

if __name__ == "__main__":
    main(MODEL, SETTINGS)
