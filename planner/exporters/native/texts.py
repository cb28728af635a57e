"""The line of an operator in the native form: torch's expression, the same on every rank.

It may hold no size of a shard. Where only one size differs, operators that find it by themselves leave it open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ...core.assignment import AssignedNode, TrainingGraph
from ...core.graph import Node
from ...ops import OPS, Local
from ..explicit.local import local_of
from .problems import Problems
from .whole import ALONE

OPEN = ("split_heads", "reshape")
"""Operators whose lines may leave any one size open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The torch expression of an operator, the same on every rank.

    Parameters
    ----------
    training
        The plan's training graph.
    named
        Name of an operator in it → its name in the model in one piece.
    problems
        Told of lines that would differ from rank to rank.
    low
        Whether the model computes in fewer bits than fp32, in which the loss is taken.
    """

    training: TrainingGraph
    named: Callable[[str], str]
    problems: Problems
    low: bool
    runs: dict[str, list[AssignedNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for assembly in self.training.assignment.assemblies:
            for node in assembly.nodes:
                self.runs.setdefault(self.named(node.node.origin or node.node.name), []).append(node)

    def of(self, node: AssignedNode, arguments: tuple[str, ...], device: str) -> str:
        """Return the expression of an operator on named operands."""
        operator, name = node.node, self.named(node.node.name)
        if operator.op == "cross_entropy":
            return self.loss(operator, arguments)
        if any(made.node.origin for made in self.runs.get(name, ())):
            parts = ", ".join(dict.fromkeys(made.node.op for made in self.runs[name]))
            self.problems.add(name, f"{operator.op} is computed in parts ({parts}) on shards of a dim that "
                              "torch's own call needs whole")  # fmt: skip
            return "…"
        symbols, mesh = self.training.assignment.symbols, self.training.assignment.mesh
        local = local_of(operator, node.strategy, arguments, symbols, ALONE)
        text = OPS[operator.op].torch(local)
        sharded = [local_of(operator, made.strategy, arguments, symbols, mesh) for made in self.runs[name]]
        for each in sharded:
            found = _opened(text, OPS[operator.op].torch(each))
            if found != text and (not found or not _may_open(local, each)):
                self.problems.add(name, f"its line holds sizes of a shard ({text}), and the model's own line "
                                  "has to serve all ranks")  # fmt: skip
                return text
            text = found
        text = text.replace("mesh.device", device)
        if "mesh." in text:
            self.problems.add(name, f"{operator.op} asks the plan's runtime ({text}), which this form lacks")
        return text

    def loss(self, operator: Node, arguments: tuple[str, ...]) -> str:
        """Return the sum of the losses of logits, given with their labels."""
        given = dict(operator.attributes)
        smoothing = given.get("label_smoothing")
        options = [
            f"ignore_index={given['ignore_index']}", *([f"label_smoothing={smoothing!r}"] if smoothing else [])
        ]  # fmt: skip
        logits, labels = arguments
        rows = f"{logits}.flatten(0, -2)" + ".float()" * self.low
        return f'F.cross_entropy({rows}, {labels}.flatten(), reduction="sum", {", ".join(options)})'


def _may_open(whole: Local, shard: Local) -> bool:
    """Return whether an operator finds a size by itself that its line leaves open."""
    if whole.node.op != "expand":
        return whole.node.op in OPEN
    # Here -1 means what the operand has, so it can't be a size that is expanded.
    before, after = whole.operands[0], whole.results[0]
    kept = dict(zip(range(-len(before), 0), before, strict=True))
    return all(kept.get(d - len(after)) == size for d, size in enumerate(after) if size != shard.results[0][d])


def _opened(text: str, other: str) -> str:
    """Return a line with the only number that differs in another left open, as -1; empty if more differs."""
    ours, theirs = (re.findall(r"-?\d+|[^\d-]+|-", line) for line in (text, other))
    unlike = [place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
    if len(ours) != len(theirs) or len(unlike) > 1:
        return ""
    if unlike and (not theirs[unlike[0]].lstrip("-").isdigit() or not ours[unlike[0]].lstrip("-").isdigit()):
        return ""
    return "".join("-1" if place in unlike else token for place, token in enumerate(ours))
