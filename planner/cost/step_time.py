r"""The time of an optimizer step from its parts.

```text
estimate = C_f + C_b + R + K + A + max(0, P_f − C_f) + max(0, P_b − C_b − R) + (G − hidden) + U + optimizer
lower    = max(C_f + C_b + R + K, A + P_f + P_b + G + U) + optimizer    everything hidden that could be
upper    = C_f + C_b + R + K + A + P_f + P_b + G + U + optimizer        nothing hidden
```

C is computation, R what of it is done again in backward, K the copies that pack gradients, which run where backward
computes, A the collectives of activations, P those that fetch parameters, forward and backward, G those that reduce
gradients, after each microbatch or deferred, U those of the update, for which all gradients must be there and the next
step waits. The next operator waits for A, so A is exposed. P does not depend on the activations: weights can be fetched
ahead, behind the computation of the same phase (Zhao et al. 2023, PyTorch FSDP), so only what is longer than that
computation is exposed. G hides behind what the fetches leave of backward where the plan overlaps it (`overlap`), and
else not at all: backward waits for it. That a fetch can't hide before the first layer, and that overlapping slows
computation, is not in the estimate. The interval is what overlap can change, not the error of the device's numbers.

Where the host has a part: H_f and H_b are the copies of parameters from there, V the update there. They add
max(0, H_f − C_f) + max(0, H_b − C_b − R) + V to the estimate, H_f + H_b + V to the upper end, and to the lower end V,
and H_f + H_b among the maximum. They use another link than collectives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..core.report import CollectiveRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """Seconds of the parts of an optimizer step, all layers and microbatches counted.

    Parameters
    ----------
    forward, backward, recompute
        Computation; the last is forward again, during backward.
    host_forward, host_backward, host_update
        Copies of parameters from the host, over a link of their own; copies and work of the update there.
    activations_forward, activations_backward, parameters_forward, parameters_backward, gradients, deferred, update
        Communication; reductions of gradients are those after every microbatch, and those that are deferred.
    packing, packing_deferred
        Copies of gradients into their buckets: after every microbatch, and once a step.
    hidden_gradients, hidden_deferred
        What of the reductions of gradients hides behind backward computation.
    """

    forward: float
    backward: float
    activations_forward: float
    activations_backward: float
    parameters_forward: float
    parameters_backward: float
    update: float
    optimizer: float
    recompute: float = 0.0
    gradients: float = 0.0
    hidden_gradients: float = 0.0
    deferred: float = 0.0
    hidden_deferred: float = 0.0
    packing: float = 0.0
    packing_deferred: float = 0.0
    host_forward: float = 0.0
    host_backward: float = 0.0
    host_update: float = 0.0

    @property
    def compute(self) -> float:
        """Seconds of computation without the optimizer."""
        return self.forward + self.backward + self.recompute

    @property
    def copies(self) -> float:
        """Seconds of all copies of gradients into buckets."""
        return self.packing + self.packing_deferred

    @property
    def communication(self) -> float:
        """Seconds of all collectives, hidden or not."""
        activations = self.activations_forward + self.activations_backward
        parameters = self.parameters_forward + self.parameters_backward
        return activations + parameters + self.gradients + self.deferred + self.update

    @property
    def hidden_forward(self) -> float:
        """Seconds of parameter communication hidden behind forward computation."""
        return min(self.parameters_forward, self.forward)

    @property
    def hidden_backward(self) -> float:
        """Seconds of parameter communication hidden behind backward computation."""
        return min(self.parameters_backward, self.backward + self.recompute)

    @property
    def exposed(self) -> float:
        """Seconds of communication that nothing hides."""
        hidden = self.hidden_forward + self.hidden_backward + self.hidden_gradients + self.hidden_deferred
        return self.communication - hidden

    @property
    def hidden_host_forward(self) -> float:
        """Seconds of copies from the host hidden behind forward computation."""
        return min(self.host_forward, self.forward)

    @property
    def hidden_host_backward(self) -> float:
        """Seconds of copies from the host hidden behind backward computation."""
        return min(self.host_backward, self.backward + self.recompute)

    @property
    def exposed_host(self) -> float:
        """Seconds of the host that nothing hides: fetches that are longer than the computation, and the update."""
        fetched = self.host_forward + self.host_backward
        return fetched - self.hidden_host_forward - self.hidden_host_backward + self.host_update

    @property
    def estimate(self) -> float:
        """The estimate of the step time."""
        return self.compute + self.copies + self.exposed + self.exposed_host + self.optimizer

    @property
    def interval(self) -> tuple[float, float]:
        """Step time with everything hidden that could be, and with nothing hidden."""
        fetched, late = self.host_forward + self.host_backward, self.host_update + self.optimizer
        busy = self.compute + self.copies
        return max(busy, self.communication, fetched) + late, busy + self.communication + fetched + late


def communication_seconds(rows: Iterable[CollectiveRow], phase: str, *, parameter: bool) -> float:
    """Return the seconds of one phase of activations, or of parameters without the reductions of gradients."""
    chosen = (row for row in rows if row.phase == phase and row.parameter == parameter and not row.reduces)
    return sum(row.seconds * row.count for row in chosen)
