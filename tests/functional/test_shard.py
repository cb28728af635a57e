"""Covers: planner.functional: parts of an eager model on 2 × 2 ranks equal the same parts whole."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import planner  # noqa: E402
from planner.errors import PlannerError  # noqa: E402

from .ranks import run_all  # noqa: E402

LINEAR = torch.nn.Linear(4, 6)
ONE = {"tp": 1}


def test_parts_on_shards_train_like_parts_that_are_whole() -> None:
    names = ("example", "attention", "function", "unequal")
    example, attention, function, unequal = run_all("tests.functional.cases", names, 4)
    assert [error for error in example if not isinstance(error, float) or error > 1e-10] == []
    assert [error for error in attention if not isinstance(error, float) or error > 1e-10] == []
    assert [error for error in function if not isinstance(error, float) or error > 1e-10] == []
    assert unequal == ["shard.shapes"] * 4


def code_of(*arguments: object, inputs: tuple[object, ...] | None = None, **options: object) -> tuple[str, str]:
    def call() -> None:
        planner.shard(*arguments, **options)(*(inputs or (torch.zeros(2, 4),)))  # type: ignore[arg-type]

    with pytest.raises(PlannerError) as caught:
        call()
    return caught.value.code, str(caught.value)


def test_an_unknown_parameter_is_an_error_that_names_close_ones() -> None:
    code, text = code_of(LINEAR, [None], [None], {"wieght": "[tp, -]"}, mesh=ONE)
    assert code == "shard.parameter-unknown"
    assert "'wieght'" in text
    assert "weight" in text.replace("wieght", "")


def test_what_cannot_be_sharded_is_told() -> None:
    assert code_of(LINEAR, [None], [None], mesh={"tp": 2})[0] == "shard.mesh"
    assert code_of(LINEAR, [None, None], [None], mesh=ONE)[0] == "shard.inputs"
    assert code_of(LINEAR, [None], [None, None], mesh=ONE)[0] == "shard.outputs"
    assert code_of(LINEAR, [None], [None], mesh=ONE, inputs=(3,))[0] == "shard.inputs"
    assert code_of(LINEAR, ["[-, -] +tp"], [None], mesh=ONE)[0] == "shard.partial"
    assert code_of(LINEAR, [None], [None], {"weight": "[-, -] +tp"}, mesh=ONE)[0] == "shard.partial"
    assert code_of(LINEAR, ["[xx, -]"], [None], mesh=ONE)[0] == "mesh.axis-unknown"
    assert code_of(lambda x: x.argmax(-1), [None], [None], mesh=ONE)[0] == "model.output-kind"
    norm = torch.nn.BatchNorm1d(4)
    assert code_of(norm, [None], [None], mesh=ONE)[0] == "model.buffer-updated"
    complex_one = torch.nn.Linear(4, 4, dtype=torch.complex64)
    assert code_of(complex_one, [None], [None], mesh=ONE)[0] == "shard.element-type"


def test_the_given_module_is_not_changed_and_names_stay() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.5))
    part = planner.shard(module, [None], [None], mesh=ONE)
    assert list(part.state_dict()) == list(module.state_dict())
    x = torch.randn(3, 4)
    part.train()
    # Dropout draws anew at each call, and does nothing in evaluation.
    assert not torch.equal(part(x), part(x))
    part.eval()
    module.eval()
    assert torch.equal(part(x), module(x))
    assert all(p.device.type == "cpu" for p in module.parameters())
    with torch.no_grad():
        part.get_parameter("0.weight").zero_()
    assert module[0].weight.abs().sum() > 0


class Tied(torch.nn.Module):
    """Two uses of one weight, statistics, and inputs that nothing reads or that have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, unused: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm(self.first(x))
        return self.second(x).masked_fill(mask > 0, 0.0), x


def test_shared_weights_statistics_and_inputs_without_gradient() -> None:
    whole = Tied()
    whole(torch.randn(5, 4), torch.zeros(1), torch.zeros(5, 1))
    whole.eval()
    part = planner.shard(whole, [None] * 3, [None] * 2, {"second.weight": "[tp, -]"}, mesh=ONE)
    x, unused, mask = torch.randn(6, 4), torch.zeros(2, requires_grad=True), torch.randn(6, 1, requires_grad=True)
    for module in (whole, part):
        a, b = module(x, unused, mask)
        (a.square().sum() + b.sum()).backward()
    assert unused.grad is None
    assert mask.grad is None
    assert [name for name, _ in part.named_parameters()] == [name for name, _ in whole.named_parameters()]
    for (name, mine), other in zip(part.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, msg=name)
    with pytest.raises(PlannerError, match="changes its buffers"):
        part.train()(x, unused, mask)
