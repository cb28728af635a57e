"""Train the config by the plan in plan.json; the files in launch/ start it."""

from parallel.command import main
from parallel.data import Feed
from parallel.pipeline import by_table
from parallel.settings import Settings
from stages import PIPELINE

MODEL = by_table(PIPELINE)
SETTINGS = Settings(
    mesh={"pp": 2, "dp": 2},
    samples=8,
    microbatches=4,
    dtype="float64",
    regather=False,
    tokens=8,
    multiple=None,
    flops=13200384.0,
    device="h100-sxm",
    peak_flops={
        "bfloat16": 989400000000000.0,
        "float16": 989400000000000.0,
        "float32": 67000000000000.0,
        "float64": 67000000000000.0,
    },
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
