"""Dynamic loss scaling: keeps small gradients of fp16 from becoming zero.

The loss is multiplied before backward, and gradients are divided where the optimizer has them in fp32. A step whose
gradients are not all finite on every rank is left out, and the scale halved; after many good steps it is doubled
(Micikevicius et al. 2018, "Mixed precision training", section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass

DOUBLED_AFTER = 2000
"""Good steps in a row."""


@dataclass(frozen=True)
class LossScale:
    """A power of two that the loss is multiplied by, and how many steps in a row were good with it."""

    value: float = 2.0**16
    good: int = 0

    def after(self, finite: bool) -> LossScale:
        """Return the scale after a step whose gradients were finite, or were not.

        Raises
        ------
        FloatingPointError
            When gradients are not finite without any scaling.
        """
        if not finite:
            if self.value <= 1:
                raise FloatingPointError(
                    "gradients are not finite although the loss is not scaled up any more; "
                    "lower --lr, set --clip, or train with --dtype bfloat16"
                )
            return LossScale(self.value / 2)
        if self.good + 1 == DOUBLED_AFTER:
            return LossScale(self.value * 2)
        return LossScale(self.value, self.good + 1)
