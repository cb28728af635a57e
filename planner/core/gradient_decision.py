"""What a plan decides on the gradients of parameters: what shares a collective, when it runs, what it passes.

Where nothing is decided, each raw gradient is reduced by itself where backward makes it, as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PlannerError

FUSIONS = ("none", "auto", "size", "index")
"""How gradients are put into buckets: each by itself, up to `AUTO_BUCKET_BYTES`, up to a size, or at given places."""
AUTO_BUCKET_BYTES = 64 << 20
"""What `auto` fills a bucket to: at this size latency is small beside the transfer on the links of the catalogue."""
REDUCTIONS = ("mean", "sum")
COMPRESSIONS = ("none", "bf16", "fp16", "int8", "one_bit")
SCALED = frozenset({"fp16", "int8", "one_bit"})
"""Those in which elements that are passed together share a scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDecision:
    """How the gradients of parameters are reduced over the ranks.

    Parameters
    ----------
    fusion
        One of `FUSIONS`: which reductions share a collective.
    bucket_bytes
        With `size`: the most bytes of raw gradients in a bucket; a larger gradient is a bucket of its own.
    indices
        With `index`: positions, in the order in which forward reads the parameters, at which a new bucket begins.
    reduction
        `mean`: gradients of the loss, a mean over the step's targets. `sum`: that many times more as there are data
        ranks and microbatches together.
    overlap
        Whether reductions run beside the rest of backward, or backward waits for each.
    compression
        One of `COMPRESSIONS`: what gradients are passed as.

    Raises
    ------
    PlannerError
        `plan.gradient-choice`, `plan.gradient-bucket`, `plan.gradient-indices`.
    """

    fusion: str = "none"
    bucket_bytes: int = 0
    indices: tuple[int, ...] = ()
    reduction: str = "mean"
    overlap: bool = False
    compression: str = "none"

    def __post_init__(self) -> None:
        for what, given, known in (
            ("fusion", self.fusion, FUSIONS),
            ("reduction", self.reduction, REDUCTIONS),
            ("compression", self.compression, COMPRESSIONS),
        ):
            if given not in known:
                raise PlannerError(
                    "plan.gradient-choice", f"There is no {what} of gradients {given!r}.", f"Use {', '.join(known)}.",
                    subject="gradients",
                )  # fmt: skip
        if (self.fusion == "size") != (self.bucket_bytes > 0) or self.bucket_bytes < 0:
            raise PlannerError(
                "plan.gradient-bucket", f"Fusion {self.fusion!r} with buckets of {self.bucket_bytes} bytes.",
                "Give bucket_bytes of at least 1 with fusion 'size', and with nothing else.", subject="gradients",
            )  # fmt: skip
        rising = all(a < b for a, b in zip((0, *self.indices), self.indices, strict=False))
        if (self.fusion == "index") != bool(self.indices) or not rising:
            raise PlannerError(
                "plan.gradient-indices", f"Fusion {self.fusion!r} with buckets that begin at {list(self.indices)}.",
                "Give rising positions from 1 on with fusion 'index', and with nothing else.", subject="gradients",
            )  # fmt: skip

    @property
    def gathers(self) -> bool:
        """Whether raw gradients wait in buckets, or are reduced one by one where they appear."""
        return self.fusion != "none" or self.overlap or self.compression != "none"

    @property
    def largest_bucket(self) -> int:
        """The most bytes in a bucket of more than one gradient; 0 where sizes do not matter."""
        return {"auto": AUTO_BUCKET_BYTES, "size": self.bucket_bytes}.get(self.fusion, 0)


AS_THEY_COME = GradientDecision()
"""What a plan does that decides nothing on gradients."""
