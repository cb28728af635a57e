"""Checks the nodes of a block, one after the other, and the repeated blocks in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest

from ..core.graph import Block, Node, Repeat, Value
from ..core.layers import list_of
from ..core.symbol import positive
from ..core.tensor import DTYPE_BYTES, TensorMeta
from ..errors import Diagnostic, PlannerError
from ..ops import OPS

# What functions of the operator table raise on operands that they do not expect.
_MISFIT = (PlannerError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)

Metas = dict[str, TensorMeta]


def finding(code: str, subject: str, what: str) -> Diagnostic:
    """Return an error about a graph; `what` goes on after the subject's name."""
    return Diagnostic(
        code=f"graph.{code}",
        subject=subject,
        message=f"{subject or 'The root'} {what}.",
        hint="The importer that built the graph has to be mended.",
    )


def check_block(block: Block, layers: tuple[str, ...], found: list[Diagnostic]) -> Metas:
    """Add what is wrong in a block to `found`, and return the metas of its values and parameters.

    Parameters
    ----------
    layers
        What names of operators and parameters start with, one of these; none for the root.
    """
    metas: Metas = {}
    for value in block.inputs:
        _define(value.name, value.meta, metas, found)
    for parameter in block.parameters:
        _define(parameter.name, parameter.meta, metas, found)
        if not all(isinstance(size, int) for size in parameter.meta.shape):
            found.append(finding("shape-unknown", parameter.name, f"is a parameter of {parameter.meta}"))
    made = {value.name for item in block.body for value in item.results}
    for item in block.body:
        complete = _check_operands(item, metas, made, found)
        if isinstance(item, Repeat):
            _check_repeat(item, bool(layers), metas, found)
        elif complete:
            _check_operator(item, metas, found)
        _define_results(item, metas, found)
    for output in block.outputs:
        if output not in metas:
            found.append(finding("value-undefined", output, "is an output that is never made"))
    for name in (*(item.name for item in block.body), *(p.name for p in block.parameters)):
        if layers and not any(re.match(rf"{re.escape(layer)}[./]", name) for layer in layers):
            found.append(finding("layer-name", name, f"is repeated, and does not start {' or '.join(layers)}"))
    return metas


def _check_operands(item: Node | Repeat, metas: Metas, made: set[str], found: list[Diagnostic]) -> bool:
    missing = [operand for operand in item.operands if operand not in metas]
    for operand in missing:
        why = "before it is made" if operand in made else "which its block does not have"
        found.append(finding("value-undefined", item.name, f"reads {operand!r}, {why}"))
    return not missing


def _define_results(item: Node | Repeat, metas: Metas, found: list[Diagnostic]) -> None:
    for index, value in enumerate(item.results):
        if value.name != (f"{item.name}:{index}" if index else item.name):
            found.append(finding("result-name", item.name, f"calls a result {value.name!r}"))
        _define(value.name, value.meta, metas, found)


def _define(name: str, meta: TensorMeta, metas: Metas, found: list[Diagnostic]) -> None:
    if name in metas:
        found.append(finding("name-repeated", name, "is made twice in one block"))
    if meta.dtype not in {*DTYPE_BYTES, "compute"}:
        found.append(finding("dtype-unknown", name, f"has the element type {meta.dtype!r}"))
    if not all(positive(size) for size in meta.shape):
        found.append(finding("shape-unknown", name, f"has the shape {meta}"))
    metas[name] = meta


def _check_operator(node: Node, metas: Mapping[str, TensorMeta], found: list[Diagnostic]) -> None:
    if node.op not in OPS:
        found.append(finding("op-unknown", node.name, f"is a {node.op!r}, no known operator"))
        return
    op = OPS[node.op]
    needed = sum(not name.endswith("?") for name in op.operands)
    if not needed <= len(node.operands) <= len(op.operands):
        count = len(node.operands)
        found.append(finding("operand-count", node.name, f"has {count} operands for {op.operands}"))
        return
    operands = tuple(metas[name] for name in node.operands)
    results = tuple(value.meta for value in node.results)
    attributes = dict(node.attributes)
    try:
        inferred = op.infer(operands, attributes)
        rule = op.rule(operands, inferred, attributes)
    except _MISFIT as problem:
        shapes = ", ".join(map(str, operands))
        found.append(finding("operand-shape", node.name, f"can't take {shapes} ({problem})"))
        return
    if results != inferred:
        made, right = ", ".join(map(str, results)), ", ".join(map(str, inferred))
        found.append(finding("result-shape", node.name, f"gives {right}, and says {made}"))
    elif rule != node.rule:
        what = f"has the rule {node.rule}, which is not {node.op}'s on these shapes"
        found.append(finding("rule", node.name, what))


def _check_repeat(repeat: Repeat, nested: bool, metas: Metas, found: list[Diagnostic]) -> None:
    if nested:
        found.append(finding("repeat-nested", repeat.name, "is a repeat within a repeat"))
        return
    block, name = repeat.block, repeat.name
    if repeat.count < 1:
        found.append(finding("repeat-count", name, f"runs {repeat.count} times"))
        return
    counts = len(repeat.operands), len(block.inputs), len(repeat.results), len(block.outputs)
    if counts[0] != counts[1] or counts[2] != counts[3] or counts[2] > counts[1]:
        found.append(
            finding(
                "repeat-count",
                name,
                "binds {} values to {} inputs and {} results to {} outputs".format(*counts),
            )
        )
    if (layers := list_of(name)[1]) and layers.count % repeat.count:
        found.append(finding("repeat-count", name, f"runs {repeat.count} times through {layers.count} layers"))
    inner = check_block(block, repeat.templates, found)
    carried = block.inputs[: len(block.outputs)]
    _same(name, "outer value", [metas.get(v) for v in repeat.operands], block.inputs, found)
    _same(name, "output", [inner.get(v) for v in block.outputs], carried, found)
    _same(name, "result", [value.meta for value in repeat.results], carried, found)


def _same(
    name: str,
    what: str,
    metas: list[TensorMeta | None],
    inputs: tuple[Value, ...],
    found: list[Diagnostic],
) -> None:
    for meta, value in zip_longest(metas, inputs):
        # What is missing on one side was said already.
        if meta and value and meta != value.meta:
            found.append(
                finding(
                    "repeat-carry",
                    name,
                    f"binds {value.name!r} of {value.meta} to the {what} of {meta}",
                )
            )
