"""What the plan fixes about a run; the command line may change the number of microbatches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .data import Feed
from .gradients import Exchange


@dataclass(frozen=True)
class Settings:
    """What the plan fixes about a run.

    Parameters
    ----------
    mesh
        Axis → size.
    samples
        Samples, such as sequences or images, of an optimizer step.
    microbatches
        Parts of a step that go through the model one after the other.
    inputs
        What the model's inputs are fed with, in their order.
    dtype, gradient_dtype
        Element types of parameters and computation, and that in which gradients are reduced and added up if it is a
        wider one.
    tokens
        Tokens of a sample; 0 where samples are no sequences.
    multiple
        What the samples of a microbatch must be a multiple of if there are more or fewer microbatches than planned;
        None where the code holds their number or their size.
    flops
        FLOPs of a step of the whole model, forward and backward, without what sharding and recomputing add.
    summed
        Data ranks, if gradients are those of the loss times data ranks and microbatches; 0 if those of the loss.
    gradients
        How gradients are put into buckets; None where each is reduced by itself.
    device, peak_flops
        The planned device, and its peak in FLOP/s by element type.
    """

    mesh: dict[str, int]
    samples: int
    microbatches: int
    inputs: tuple[Feed, ...]
    dtype: str
    gradient_dtype: str = ""
    regather: bool = False
    summed: int = 0
    gradients: Exchange | None = None
    tokens: int = 0
    multiple: int | None = None
    flops: float = 0.0
    device: str = ""
    peak_flops: dict[str, float] = field(default_factory=dict)

    @property
    def factor(self) -> int:
        """What the gradients of the loss are multiplied by."""
        return self.summed * self.microbatches or 1

    def summed_like(self, other: Settings) -> Settings:
        """Return the settings with which this run, of other ranks and microbatches, has the gradients of another."""
        return replace(self, summed=other.factor // self.microbatches if other.summed else 0)

    def uncompressed(self) -> Settings:
        """Return the settings with which gradients are passed as they are."""
        return self if self.gradients is None else replace(self, gradients=self.gradients.uncompressed())

    def in_microbatches(self, count: int) -> Settings:
        """Return the settings with a step cut into `count` microbatches.

        Raises
        ------
        ValueError
            Where the batch does not divide, or the model's code is written for microbatches of the planned size.
        """
        if count == self.microbatches:
            return self
        if count < 1 or self.samples % count:
            legal = [n for n in range(1, self.samples + 1) if self.samples % n == 0]
            raise ValueError(
                f"{self.samples} samples a step can't be cut into {count} microbatches; use one of {legal}"
            )
        if self.multiple is None:
            raise ValueError(
                f"the code is written for {self.microbatches} microbatches of "
                f"{self.samples // self.microbatches} samples; export the plan with {count}"
            )
        if self.samples // count % self.multiple:
            raise ValueError(
                f"microbatches of {self.samples // count} samples do not divide over the ranks, which need a multiple "
                f"of {self.multiple}; use fewer than {count}"
            )
        return replace(self, microbatches=count)
