"""What the ranks of `test_shard` do: modules on shards beside the same modules whole. Each returns an error."""

import re
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import planner
from planner.errors import PlannerError

HOW_TO = Path(__file__).parents[2] / "docs/how-to/shard-one-module.md"
MESH = {"dp": 2, "tp": 2}


def example() -> float:
    """Run the example of the how-to; return its largest difference."""
    (code,) = re.findall(r"```python\n(import torch.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(code, "example.py", "exec"), names)
    return max(names["errors"])  # type: ignore[call-overload]


def place() -> tuple[int, int]:
    return dist.get_rank() // 2, dist.get_rank() % 2


def values(module: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return module


class Attention(nn.Module):
    """Two residual layers of attention over embedded tokens, with a frozen scale and a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(8, 24), "out": nn.Linear(8, 8)}) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("positions", torch.randn(6, 8, generator=torch.Generator().manual_seed(2)))

    def forward(self, tokens: torch.Tensor, context: torch.Tensor) -> dict[str, torch.Tensor]:
        x = (self.words(tokens) + self.positions) * self.scale + context
        for layer in self.layers:
            q, k, v = layer["qkv"](x).view(*x.shape[:2], 3, 4, 2).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](mixed.transpose(1, 2).flatten(2))
        return {"states": x, "mean": x.mean(-1)}


def attention() -> float:
    """Integers and numbers in, two outputs, layers, storage over both axes; return the largest error of all."""
    whole = values(Attention())
    part = planner.shard(
        whole, ["[dp, -]", "[dp, tp, -]"], ["[dp, tp, -]", "[dp, -]"],
        {"words.weight": "[tp, -]", "layers.*.qkv.weight": "[-, dp]", "layers.*.out.weight": "[-, tp]",
         "layers.1.out.bias": "[dp·tp]"},
        mesh=MESH,
    )  # fmt: skip
    d, t = place()
    errors = []
    for batch in (4, 8):
        torch.manual_seed(batch)
        tokens, context = torch.randint(10, (batch, 6)), torch.randn(batch, 6, 8, requires_grad=True)
        ours = context.detach().chunk(2, 0)[d].chunk(2, 1)[t].requires_grad_()
        for module in (whole, part):
            module.zero_grad()
        made = part(tokens.chunk(2, 0)[d], ours)
        expected = whole(tokens, context)
        # States lie in parts over both axes; the means are whole along tp, so every rank there has the same loss.
        weights = torch.randn(batch, 6, 8)
        torch.autograd.backward(
            [made["states"], made["mean"].square().sum()], [weights.chunk(2, 0)[d].chunk(2, 1)[t], torch.tensor(1.0)]
        )
        ((expected["states"] * weights).sum() + expected["mean"].square().sum()).backward()
        own, all_of = dict(part.named_parameters()), dict(whole.named_parameters())
        assert own.keys() == all_of.keys()
        assert own["scale"].grad is None
        pairs = [(made["states"], expected["states"].chunk(2, 0)[d].chunk(2, 1)[t])]
        pairs += [
            (made["mean"], expected["mean"].chunk(2, 0)[d]),
            (ours.grad, context.grad.chunk(2, 0)[d].chunk(2, 1)[t]),
        ]
        for name, parameter in own.items():
            if name != "scale":
                pairs.append((parameter.grad, cut(all_of[name].grad, name)))
        errors += [((a - b).abs().max() / b.abs().max()).item() for a, b in pairs]
        assert own["layers.1.out.bias"].shape == (2,)
        assert own["layers.0.qkv.weight"].shape == (24, 4)
    return max(errors)


def cut(whole: torch.Tensor, name: str) -> torch.Tensor:
    d, t = place()
    if name == "words.weight":
        return whole.chunk(2, 0)[t]
    if name.endswith("qkv.weight"):
        return whole.chunk(2, 1)[d]
    if name.endswith("out.weight"):
        return whole.chunk(2, 1)[t]
    return whole.chunk(4)[2 * d + t] if name == "layers.1.out.bias" else whole


def function() -> float:
    """A function of two matrices, contracted over a dim that is cut."""
    torch.manual_seed(3)
    a, b = torch.randn(4, 8, requires_grad=True), torch.randn(8, 6, requires_grad=True)
    d, t = place()
    ours = a.detach().chunk(2, 0)[d].chunk(2, 1)[t].requires_grad_(), b.detach().chunk(2, 0)[t].requires_grad_()
    part = planner.shard(lambda x, y: torch.tanh(x @ y), ["[dp, tp]", "[tp, -]"], ["[dp, tp]"], mesh=MESH)
    made, expected = part(*ours), torch.tanh(a @ b)
    made.square().sum().backward()
    expected.square().sum().backward()
    pairs = [(made, expected.chunk(2, 0)[d].chunk(2, 1)[t]), (ours[0].grad, a.grad.chunk(2, 0)[d].chunk(2, 1)[t])]
    pairs.append((ours[1].grad, b.grad.chunk(2, 0)[t]))
    return max((x - y).abs().max().item() for x, y in pairs)


def unequal() -> str:
    """Rank 3 passes more rows than the others; return the code of the error."""
    part = planner.shard(nn.Linear(4, 4), ["[dp, -]"], ["[dp, -]"], mesh=MESH)
    try:
        part(torch.zeros(3 if dist.get_rank() == 3 else 2, 4))
    except PlannerError as problem:
        return problem.code
    return ""
