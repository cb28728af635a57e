"""A part is computed again once, however many parts backward has, and is let go when backward is done."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.autograd.graph import get_gradient_edge  # noqa: E402

from planner.exporters.runtime.mesh import Mesh  # noqa: E402
from planner.exporters.runtime.recompute import recompute  # noqa: E402
from planner.exporters.runtime.split_backward import backward_inputs  # noqa: E402


class Part:
    """Three layers that count how often they run."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.weights = [torch.rand(4, 4, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
        self.x = torch.rand(2, 4, generator=generator, dtype=torch.float64).requires_grad_()
        self.runs = [0, 0, 0, 0]

    def __call__(self, x: Any) -> Any:
        for layer, weight in enumerate(self.weights):
            self.runs[layer] += 1
            x = torch.tanh(torch.nn.functional.linear(x, weight))
        self.runs[3] += 1
        return x.sum()

    def gradients(self) -> list[Any]:
        return [self.x.grad, *(weight.grad for weight in self.weights)]


def whole(out: Any, part: Part) -> None:
    out.backward()


def halves(out: Any, part: Part) -> None:
    (part.x.grad,), later = backward_inputs([get_gradient_edge(out)], [torch.ones_like(out)], [part.x])
    assert part.runs[2] == 2
    later()


@pytest.mark.parametrize("backward", [whole, halves])
def test_once_and_as_far_as_needed(backward: Callable[[Any, Part], None]) -> None:
    expected, part = Part(), Part()
    expected(expected.x).backward()
    backward(recompute(part, Mesh({"dp": 1}), part.x), part)
    for a, b in zip(expected.gradients(), part.gradients(), strict=True):
        assert torch.equal(a, b)
    # After the last tanh nothing is kept: the sum is not computed again.
    assert part.runs == [2, 2, 2, 1]


def kept() -> list[int]:
    """Return how many tensors each part holds that was computed again."""
    gc.collect()
    return [len(thing.tensors) for thing in gc.get_objects() if type(thing).__name__ == "_Dropped"]


def test_what_is_computed_again_stays_from_the_first_half_to_the_second_only() -> None:
    before, part = kept(), Part()
    out = recompute(part, Mesh({"dp": 1}), part.x)
    assert kept() == [*before, 0]
    _, later = backward_inputs([get_gradient_edge(out)], [torch.ones_like(out)], [part.x])
    assert kept()[-1] >= 3
    later()
    del out, later
    assert kept() == before


def test_a_part_that_changes_is_told() -> None:
    part, other = Part(), [True]

    def fickle(x: Any) -> Any:
        return torch.tanh(part(x)) if other.pop() else part(x[:0].sum() + part.weights[0].sum() * 0 + x).detach()

    out = recompute(fickle, Mesh({"dp": 1}), part.x)
    other.append(False)
    with pytest.raises(RuntimeError, match="when it was computed again"):
        out.backward()
