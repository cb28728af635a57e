"""The table `ZOO`: what kind of model each one is that comes along, and a plan to start from that fits its cluster.

Presets are given as data, name and axes, as a plan takes them; a test applies each and asks whether memory suffices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GROUPS = (
    "dense", "experts", "encoder", "encoder-decoder", "vision", "speech", "recommendation", "diffusion", "state space",
)  # fmt: skip
"""In the order in which they are listed."""
DENSE, EXPERTS, ENCODER, PAIR, VISION, SPEECH, RECOMMENDATION, DIFFUSION, STATE_SPACE = GROUPS
Preset = tuple[str, str]
"""Name and axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model that comes along.

    Parameters
    ----------
    group
        One of `GROUPS`.
    cluster
        A cluster on which the model trains comfortably.
    mesh
        Axes and sizes, all of the cluster's devices.
    presets
        What is applied, in order.
    batch, seq, microbatches
        Samples a step, tokens a sample (0 where the model has no open sequence), microbatches.
    """

    name: str
    group: str
    cluster: str
    mesh: tuple[tuple[str, int], ...]
    presets: tuple[Preset, ...]
    batch: int
    seq: int = 0
    microbatches: int = 1


def _entry(
    name: str, group: str, nodes: int, each: int, *, zero: int = 0, tensor: int = 1, batch: int, seq: int = 0,
    microbatches: int = 1, experts: bool = False, device: str = "h100-sxm",
) -> ZooEntry:  # fmt: skip
    """Return an entry on some nodes: data parallel or ZeRO over `dp`, and over `tp` what splits layers in a node.

    Parameters
    ----------
    zero
        Stage of ZeRO; 0 for plain data parallel.
    experts
        Whether experts lie on `tp`, instead of heads and widths.
    """
    data, devices = (f"zero{zero}" if zero else "data_parallel"), nodes * each
    split = ("expert_parallel",) if experts else ("megatron", "sequence_parallel")
    mesh = [("dp", devices // tensor), ("tp", tensor)]
    presets = [(data, "dp"), *((preset, "tp") for preset in split)]
    return ZooEntry(
        name=name, group=group, cluster=f"{nodes}x{each}-{device}", mesh=tuple(mesh[: 1 if tensor == 1 else 2]),
        presets=tuple(presets[: 1 if tensor == 1 else 3]), batch=batch, seq=seq, microbatches=microbatches,
    )  # fmt: skip


ZOO: Mapping[str, ZooEntry] = MappingProxyType({
    entry.name: entry
    for entry in (
        ZooEntry(
            name="llama-tiny", group=DENSE, cluster="1x4-a100-80-sxm", mesh=(("dp", 2), ("tp", 2)),
            presets=(("data_parallel", "dp"), ("megatron", "tp")), batch=8, seq=64,
        ),
        _entry("llama-3.2-1b", DENSE, 1, 8, zero=1, batch=32, seq=4096, microbatches=4),
        _entry("llama-2-7b", DENSE, 1, 8, zero=3, batch=16, seq=4096, microbatches=2),
        _entry("llama-3-8b", DENSE, 1, 8, zero=3, batch=16, seq=8192, microbatches=2),
        _entry("llama-3-70b", DENSE, 8, 8, zero=3, tensor=8, batch=64, seq=8192, microbatches=8),
        _entry("llama-3.1-405b", DENSE, 64, 8, zero=3, tensor=8, batch=64, seq=4096, device="h200-sxm"),
        _entry("mistral-7b-v0.1", DENSE, 1, 8, zero=3, batch=16, seq=8192, microbatches=2),
        _entry("mistral-7b-v0.3", DENSE, 1, 8, zero=3, batch=16, seq=8192, microbatches=2),
        _entry("qwen2.5-7b", DENSE, 1, 8, zero=3, batch=16, seq=4096, microbatches=2),
        _entry("qwen3-8b", DENSE, 1, 8, zero=3, batch=16, seq=4096, microbatches=2),
        _entry("gpt2", DENSE, 1, 8, batch=64, seq=1024),
        _entry("gpt2-xl", DENSE, 1, 8, zero=1, batch=32, seq=1024, microbatches=4),
        _entry("gpt3-175b", DENSE, 32, 8, zero=3, tensor=8, batch=128, seq=2048, microbatches=4),
        _entry("mixtral-8x7b", EXPERTS, 8, 8, zero=3, tensor=8, batch=64, seq=4096, microbatches=8, experts=True),
        _entry("qwen3-30b-a3b", EXPERTS, 8, 8, zero=3, tensor=8, batch=64, seq=1024, microbatches=8, experts=True),
        _entry(
            "qwen3-235b-a22b", EXPERTS, 32, 8, zero=3, tensor=8, batch=64, seq=1024, microbatches=2, experts=True,
            device="h200-sxm",
        ),
        _entry("deepseek-v3", EXPERTS, 64, 8, zero=3, batch=512, seq=128, device="b200-sxm"),
        _entry("gpt-oss-20b", EXPERTS, 8, 8, zero=3, batch=64, seq=512),
        _entry("gpt-oss-120b", EXPERTS, 32, 8, zero=3, batch=256, seq=256, device="h200-sxm"),
        _entry("bert-base", ENCODER, 1, 8, batch=256, seq=512, microbatches=2),
        _entry("bert-large", ENCODER, 1, 8, batch=256, seq=512, microbatches=4),
        _entry("t5-base", PAIR, 1, 8, batch=64, seq=512, microbatches=2),
        _entry("t5-large", PAIR, 1, 8, zero=1, batch=64, seq=512, microbatches=4),
        _entry("vit-l-16", VISION, 1, 8, batch=512, microbatches=4),
        _entry("vit-h-14", VISION, 1, 8, batch=512, microbatches=8),
        _entry("convnext-l", VISION, 1, 8, batch=512, microbatches=8),
        _entry("resnet-50", VISION, 1, 8, batch=1024, microbatches=2),
        _entry("resnet-50-130k", VISION, 1, 8, batch=1024, microbatches=2),
        _entry("whisper-tiny", SPEECH, 1, 8, batch=128, seq=448),
        _entry("whisper-large-v3", SPEECH, 1, 8, zero=1, batch=64, seq=448, microbatches=4),
        _entry("dlrm", RECOMMENDATION, 8, 8, zero=3, batch=65536),
        _entry("unet-sd1", DIFFUSION, 1, 8, batch=128, microbatches=4),
        _entry("dit-xl-2", DIFFUSION, 1, 8, batch=256, microbatches=4),
        _entry("mamba2-130m", STATE_SPACE, 1, 8, batch=64, microbatches=4),
    )
})  # fmt: skip
