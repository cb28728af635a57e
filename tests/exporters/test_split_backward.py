"""Backward in two parts gives the gradients of backward in one, and computes nothing twice."""

import gc
import random
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.autograd.graph import get_gradient_edge  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from planner.exporters.runtime.regather import regathering  # noqa: E402
from planner.exporters.runtime.split_backward import backward_inputs  # noqa: E402

SIZE = 4
Tensors = list[Any]


class Product(torch.autograd.Function):
    """A matrix product written in Python, which counts its backwards."""

    backwards = 0

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Product.backwards += 1
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


TWO: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a @ b, lambda a, b: torch.nn.functional.linear(a, b),
    Product.apply, lambda a, b: torch.cat(torch.cat((a, b)).split(SIZE)[::-1]).narrow(0, 1, SIZE),
]  # fmt: skip
ONE: list[Callable[[Any], Any]] = [torch.tanh, lambda a: a.t(), lambda a: 0.5 * a, lambda a: a.split(2)[1].repeat(2, 1)]


def network(seed: int) -> Callable[[Tensors, Tensors], Tensors]:
    """Return a random network of two inputs and four weights: any operator on any two values, results among them."""

    def run(inputs: Tensors, weights: Tensors) -> Tensors:
        draw = random.Random(seed)
        values = [*inputs, *weights]
        for _ in range(draw.randint(3, 12)):
            if draw.random() < 0.3:
                values.append(draw.choice(ONE)(draw.choice(values)))
            else:
                values.append(draw.choice(TWO)(draw.choice(values), draw.choice(values)))
        return [values[-1], *draw.sample(values[len(inputs) + len(weights) :], 2)]

    return run


def tensors(seed: int, count: int, *, leaf: bool) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(SIZE, SIZE, generator=generator, dtype=torch.float64).requires_grad_(leaf) for _ in range(count)]


def gradients(run: Callable[[Tensors, Tensors], Tensors], seed: int, *, split: bool) -> list[Any]:
    inputs, weights = tensors(seed, 2, leaf=True), tensors(seed + 1, 4, leaf=True)
    outputs = run(inputs, weights)
    come = tensors(seed + 2, len(outputs), leaf=False)
    if not split:
        torch.autograd.backward(outputs, come)
        return [x.grad for x in (*inputs, *weights)]
    edges = [get_gradient_edge(x) for x in outputs]
    del outputs
    found, later = backward_inputs(edges, come, inputs)
    assert all(w.grad is None for w in weights)
    later()
    return [*found, *(w.grad for w in weights)]


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_two_parts_give_what_one_gives(first: int) -> None:
    for seed in range(first, first + 50):
        whole, parts = (gradients(network(seed), seed, split=split) for split in (False, True))
        for a, b in zip(whole, parts, strict=True):
            assert (a is None) == (b is None), seed
            if a is not None:
                assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * float(a.abs().max())), seed


class Counting(TorchDispatchMode):
    """Counts operators."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found[str(func)] += 1
        return func(*args, **(kwargs or {}))


def layers(inputs: Tensors, weights: Tensors) -> Tensors:
    x = inputs[0]
    for w in weights[:3]:
        x = x + torch.tanh(torch.nn.functional.linear(x, w))
    return [x * inputs[1]]


def test_the_first_part_leaves_products_of_weights_to_the_second() -> None:
    inputs, weights = tensors(0, 2, leaf=True), tensors(1, 3, leaf=True)
    (out,) = layers(inputs, weights)
    with Counting() as first:
        _, later = backward_inputs([get_gradient_edge(out)], tensors(2, 1, leaf=False), inputs)
    with Counting() as second:
        later()
    # A product for each layer's input and one for its weight; tanh only on the way to the input.
    assert first.found["aten.mm.default"] == 3
    assert second.found["aten.mm.default"] == 3
    assert first.found["aten.tanh_backward.default"] == 3
    assert second.found["aten.tanh_backward.default"] == 0


def test_a_weight_used_twice_and_a_function_in_python_are_run_once() -> None:
    def run(inputs: Tensors, weights: Tensors) -> Tensors:
        x = inputs[0] @ weights[0]
        return [Product.apply(torch.tanh(x) @ weights[0], weights[1])]

    inputs, weights = tensors(0, 2, leaf=True), tensors(1, 2, leaf=True)
    (out,) = run(inputs, weights)
    Product.backwards = 0
    with Counting() as both:
        _, later = backward_inputs([get_gradient_edge(out)], tensors(2, 1, leaf=False), inputs[:1])
        later()
    assert Product.backwards == 1
    assert both.found["aten.mm.default"] == 6


class Mark:
    """Lives as long as the node that it marks."""


def test_nothing_is_left_of_a_graph_whose_weights_were_dropped() -> None:
    inputs, weights = tensors(0, 2, leaf=True), tensors(1, 3, leaf=True)
    with regathering():
        (out,) = layers(inputs, weights)
    mark = Mark()
    tanh = out.grad_fn.next_functions[0][0].next_functions[1][0]
    assert tanh.name() == "TanhBackward0"
    tanh.metadata["mark"] = mark
    results = weakref.WeakSet([mark])
    _, later = backward_inputs([get_gradient_edge(out)], tensors(2, 1, leaf=False), inputs)
    later()
    assert results
    del out, later, tanh, mark
    gc.collect()
    assert not results
