"""Which operators are modules of torch: `nn.Linear`, `nn.Embedding`, `nn.RMSNorm`, `nn.LayerNorm`.

An operator is one where its module has no other, and where what the module holds are its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.graph import Block, ModelGraph, Node

KINDS = {
    "linear": "nn.Linear", "embedding": "nn.Embedding", "index_select": "nn.Embedding", "rms_norm": "nn.RMSNorm",
    "layer_norm": "nn.LayerNorm",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModule:
    """A module of torch that stands for an operator.

    Parameters
    ----------
    node
        The operator.
    kind
        Class of torch.
    made
        Expression that makes it.
    tied
        Parameter of another module that is its weight; empty if the weight is its own.
    """

    node: Node
    kind: str
    made: str
    tied: str = ""

    @property
    def path(self) -> str:
        """Path of the module, with tokens for layers."""
        return self.node.name


def torch_modules(graph: ModelGraph) -> dict[str, TorchModule]:
    """Return the modules of torch by their paths, which are the names of their operators."""
    paths = {module.path for module in graph.modules}
    found = {}
    for block in graph.blocks:
        times: dict[str, int] = {}
        for node in block.nodes:
            times[node.module] = times.get(node.module, 0) + 1
        for node in block.nodes:
            if node.name in paths and node.op in KINDS and (node.name != node.module or times[node.module] == 1):
                made = _made(node, block)
                if made:
                    found[node.name] = made
    return found


def _made(node: Node, block: Block) -> TorchModule | None:
    shapes = {p.name: p.meta.shape for p in block.parameters}
    held = [name for name in node.operands if name in shapes]
    picks = node.op == "index_select"
    if picks and (node.operands[0] not in shapes or len(shapes[node.operands[0]]) != 2 or node.attribute("dim")):
        return None
    if not held or list(node.operands[:1] if picks else node.operands[1:]) != held:
        return None
    weight, *bias = held
    own = [f"{node.name}.weight", f"{node.name}.bias"]
    tied = weight != own[0] and node.op == "linear" and not any(name.startswith(f"{node.name}.") for name in shapes)
    if bias != own[1 : 1 + len(bias)] or not (tied or weight == own[0]):
        return None
    attributes, shape = dict(node.attributes), shapes[weight]
    match node.op:
        case "linear":
            arguments = [f"{shape[1]}, {shape[0]}", *(["bias=False"] if not bias else [])]
        case "embedding" | "index_select":
            padding = attributes.get("padding")
            arguments = [f"{shape[0]}, {shape[1]}", *([f"padding_idx={padding}"] if padding is not None else [])]
        case _:
            sizes = f"{shape[0]}" if len(shape) == 1 else f"{shape}"
            arguments = [sizes, f"eps={attributes['eps']!r}"]
            arguments += ["bias=False"] if node.op == "layer_norm" and not bias else []
    kind = KINDS[node.op]
    return TorchModule(node=node, kind=kind, made=f"{kind}({', '.join(arguments)})", tied=weight if tied else "")
