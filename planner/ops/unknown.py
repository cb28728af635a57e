"""An operator that no rule knows: kept, computed whole on every device, and reported.

Its torch operator, the arguments of the call and its results stand in the attributes: `target` = `aten.name.overload`,
`arguments` such as `x0, x1, 3, alpha=0.5` with the operands by position, `results` such as `compute[B, 8]; int64[8]`,
and `reason`, where somebody knows more than that no rule is known.
"""

from __future__ import annotations

import ast
import re

from ..core.python_text import parsed_expression
from ..core.rule import ShardingRule
from ..core.tensor import DTYPE_BYTES, TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, OpDef, per_element, shapes_of

_LIMIT = 64
_TARGET = re.compile(r"aten(\.\w+){1,2}")
_KINDS = {f"torch.{dtype}" for dtype in DTYPE_BYTES}
_ALLOWED = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.keyword, ast.Load, ast.Call)


def _infer(_: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    return tuple(TensorMeta.parse(text.strip()) for text in str(attributes["results"]).split(";"))


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
    _call(attributes, tuple(f"x{i}" for i in range(len(operands))))
    sides = [
        ", ".join(" ".join(f"{letter}{i}_{d}" for d in range(len(meta.shape))) for i, meta in enumerate(metas))
        for letter, metas in (("x", operands), ("y", results))
    ]
    line = " -> ".join(sides)
    known = f": {attributes['reason']}" if attributes.get("reason") else ""
    reason = f"no rule knows what {attributes['target']} does{known}"
    return ShardingRule.parse(
        line, shapes=shapes_of(operands + results), blocked={factor: reason for factor in re.findall(r"\w+", line)}
    )


def _call(attributes: Attributes, operands: tuple[str, ...]) -> str:
    """Return the call's text; it holds nothing but the operator, operands and literals."""
    target, arguments = str(attributes["target"]), str(attributes["arguments"])
    names = {f"x{i}": name for i, name in enumerate(operands)}
    try:
        call = parsed_expression(f"f({arguments})")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The last two stand for a text that nests too deep.
        raise _refused(target, arguments) from None
    if not _TARGET.fullmatch(target) or not isinstance(call, ast.Call):
        raise _refused(target, arguments)
    for node in ast.walk(call):
        named = isinstance(node, ast.Name) and (node is call.func or node.id in {*names, "torch"})
        kind = isinstance(node, ast.Attribute) and ast.unparse(node) in _KINDS
        inner = isinstance(node, ast.Call) and node is not call
        spread = isinstance(node, ast.keyword) and node.arg is None
        if inner or spread or not (named or kind or isinstance(node, _ALLOWED)):
            raise _refused(target, arguments)
    written = re.sub(r"\bx\d+\b", lambda match: names[match[0]], ast.unparse(call)[2:-1])
    return f"torch.ops.{target}({written})"


def _refused(target: str, arguments: str) -> RuleError:
    return RuleError(
        "rule.unknown-call", f"{target[:200]!r} of {arguments[:200]!r} is no call of an aten operator.",
        "Name it as aten.name.overload, and pass operands x0, x1, … and literals.",
    )  # fmt: skip


def _torch(local: Local) -> str:
    return _call(dict(local.node.attributes), local.arguments)


UNKNOWN = OpDef(
    name="unknown",
    summary="a torch operator that no rule knows, computed whole on every device",
    operands=tuple(f"x{i}?" for i in range(_LIMIT)),
    infer=_infer,
    rule=_rule,
    # Nobody knows; it reads and writes its tensors at least.
    flops=per_element(0),
    backward_flops=per_element(1),
    saved=tuple(f"x{i}" for i in range(_LIMIT)),
    differentiable=tuple(f"x{i}" for i in range(_LIMIT)),
    torch=_torch,
)
