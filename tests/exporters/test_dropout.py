"""Dropout draws by global index: any box of a tensor drops what the whole tensor drops there."""

import re
from itertools import pairwise, product

import pytest

pytest.importorskip("torch")
import torch

from planner.compose import bundle
from planner.exporters.runtime.operators import dropout
from tests.tiny import tiny_graph, tiny_plan, with_dropout

SHAPE = (7, 5, 6)
KEY = (3, 1581914024, 0, 9)


def mask(shape: tuple[int, ...] = SHAPE, *, p: float = 0.3, key: tuple[int, ...] = KEY, origin=(0, 0, 0), whole=SHAPE):  # type: ignore[no-untyped-def]
    return dropout(torch.ones(shape, dtype=torch.float64), p=p, key=key, origin=origin, shape=whole)


def splitmix(seed: int, index: int) -> int:
    """Return output `index` of SplitMix64, as its authors write it: add the golden gamma, then mix."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_the_generator_is_splitmix() -> None:
    assert splitmix(0, 0) == 0xE220A8397B1DCDAF
    assert splitmix(0, 1) == 0x6E789E6AA1B965F4
    stream = 0
    for part in KEY:
        stream = splitmix(stream, part)
    lots = [splitmix(stream, index - 1) >> 32 for index in range(7 * 5 * 6)]
    expected = torch.tensor([float(lot >= round(0.3 * 2**32)) / 0.7 for lot in lots], dtype=torch.float64)
    torch.testing.assert_close(mask(), expected.view(SHAPE), rtol=1e-15, atol=0)


def test_every_box_drops_what_the_whole_drops_there() -> None:
    """Boxes of unequal sizes, and empty ones, as uneven shards are."""
    full = mask()
    cuts = [(0, 3, 5, 7, 7), (0, 2, 5), (0, 4, 6)]
    ranges = [list(pairwise(c)) for c in cuts]
    for box in product(*ranges):
        shape = tuple(stop - start for start, stop in box)
        part = mask(shape, origin=tuple(start for start, _ in box))
        assert torch.equal(part, full[tuple(slice(*r) for r in box)])


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_the_share_and_the_scale(p: float) -> None:
    shape = (100, 100, 10)
    made = mask(shape, p=p, whole=shape)
    dropped = (made == 0).double().mean().item()
    assert abs(dropped - p) < 5 * (p * (1 - p) / made.numel()) ** 0.5 + 1e-12
    torch.testing.assert_close(made[made != 0], torch.full_like(made[made != 0], 1 / (1 - p)))


def test_masks_of_other_seeds_operators_layers_steps_and_neighbours_are_independent() -> None:
    shape = (50, 20, 10)
    base = mask(shape, p=0.5, whole=shape) == 0
    bound = 5 * (0.25 / base.numel()) ** 0.5
    for position in range(len(KEY)):
        other = mask(shape, p=0.5, key=tuple(k + (i == position) for i, k in enumerate(KEY)), whole=shape) == 0
        assert abs((base == other).double().mean().item() - 0.5) < bound
    for dim in range(3):
        shifted = base.roll(1, dim)
        assert abs((base == shifted).double().mean().item() - 0.5) < bound


def test_backward_is_the_mask() -> None:
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    dropout(x, p=0.3, key=KEY, origin=(0, 0, 0), shape=SHAPE).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, mask())


def test_stages_drop_what_the_whole_drops() -> None:
    """Cut into stages, runs of layers have other names; what numbers are drawn from does not change."""
    plan = tiny_plan("pp:2", graph=with_dropout(tiny_graph()), microbatches=2)
    keys = [set(re.findall(r"key=\((.*), mesh.step\)", bundle(p)["model.py"])) for p in (plan, plan.pipelined("pp"))]
    assert len(keys[0]) == 3
    assert keys[0] == keys[1]
