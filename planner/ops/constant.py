"""Facts about whole tensors: ranges, constants, triangles. Under sharding each rank makes its part, by global index."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.rule import ShardingRule
from ..core.symbol import parse
from ..core.tensor import TensorMeta
from .definition import Attributes, Extent, Local, OpDef, names_of, per_element
from .lines import attributes_of, integer, like_first, line, listed, misfit
from .pointwise import literal

Metas = tuple[TensorMeta, ...]
BOUNDS = ("window", "chunk", "reach")
"""Attributes of a mask that bound which keys a query sees besides those after it."""
VALUES = 1 << 16
"""Elements of the largest constant that is written by its values."""


def sized(attributes: Attributes, dtype: str) -> TensorMeta:
    """Return the meta of a new tensor from the attributes `sizes`, such as `B, S, 8`, and `dtype`."""
    text, kind = attributes.get("sizes"), attributes.get("dtype", dtype)
    if not isinstance(text, str) or not isinstance(kind, str):
        raise misfit(f"the attributes sizes {text!r} and dtype {kind!r} are no texts such as 'B, S, 8' and 'float32'")
    return TensorMeta(tuple(parse(size) for size in text.split(",")) if text.strip() else (), kind)


def _torch_dtype(meta: TensorMeta, like: str = "mesh.compute") -> str:
    return like if meta.dtype == "compute" else f"torch.{meta.dtype}"


def _new_rule(_: Metas, results: Metas, __: Attributes) -> ShardingRule:
    return line((), results, [], [names_of(len(results[0].shape))])


def _range_torch(local: Local) -> str:
    attributes = attributes_of(local)
    (size,) = local.results[0]
    factor = next(iter(local.sizes))
    begin, step = integer(attributes, "start", 0), integer(attributes, "step", 1)
    text = f"torch.arange({size}, device=mesh.device)"
    if factor in local.start:
        text = f"({local.start[factor]} + {text})"
    if step != 1:
        text = f"{step} * {text}"
    if begin:
        text = f"{begin} + {text}"
    dtype = local.node.results[0].meta.dtype
    return text if dtype == "int64" else f"({text}).to({_torch_dtype(local.node.results[0].meta)})"


def _full_torch(local: Local) -> str:
    sizes = listed([str(size) for size in local.results[0]])
    dtype = _torch_dtype(local.node.results[0].meta)
    return f"torch.full({sizes}, {attributes_of(local).get('value', 0.0)!r}, dtype={dtype}, device=mesh.device)"


def _triangle_rule(operands: Metas, results: Metas, _: Attributes) -> ShardingRule:
    dims = names_of(len(results[0].shape))
    dims = [*dims[:-2], "n", "m"]
    if len(dims) < 2:
        raise misfit("a triangle needs two dims")
    if not operands:
        return line(operands, results, [], [dims])
    return line(operands, results, [dims], [dims], names=("x",), terms="x")


def _diagonal(local: Local) -> str:
    """Return the diagonal of this rank's part: that of the whole, moved by where the part begins."""
    text = str(integer(attributes_of(local), "diagonal", 0))
    if "n" in local.start:
        text += f" + {local.start['n']}"
    if "m" in local.start:
        text += f" - ({local.start['m']})"
    return text


def _triangle_torch(function: str) -> Callable[[Local], str]:
    return lambda local: f"{local.arguments[0]}.{function}({_diagonal(local)})"


def _mask_infer(_: Metas, attributes: Attributes) -> Metas:
    bounds = [name for name in BOUNDS if name in attributes]
    if len(bounds) > 1 or (bounds and "diagonal" in attributes):
        raise misfit(f"a mask can't have {', '.join(bounds)} at once, or one of them and a diagonal")
    return (sized(attributes, "compute" if "fill" in attributes else "bool"),)


def _mask_torch(local: Local) -> str:
    attributes = attributes_of(local)
    sizes = listed([str(size) for size in local.results[0]])
    given = [f"{name}={integer(attributes, name)}" for name in BOUNDS if name in attributes]
    if not given:
        text = f"torch.ones({sizes}, dtype=torch.bool, device=mesh.device).tril({_diagonal(local)})"
    else:
        first = [f"{name}={local.start[f]}" for name, f in (("first", "n"), ("first_key", "m")) if f in local.start]
        text = f"ops.window_mask({', '.join([sizes, *first, *given])}, device=mesh.device)"
    if "fill" not in attributes:
        return text
    dtype = _torch_dtype(local.node.results[0].meta)
    return (
        f"torch.zeros({sizes}, dtype={dtype}, device=mesh.device).masked_fill(~{text}, {literal(attributes['fill'])})"
    )


def _values_infer(_: Metas, attributes: Attributes) -> Metas:
    meta, values = sized(attributes, "int64"), attributes.get("values")
    sizes = [size for size in meta.shape if isinstance(size, int)]
    count = len(values) if isinstance(values, tuple) else 0
    if len(sizes) < len(meta.shape) or prod(sizes) != count or count > VALUES:
        raise misfit(f"{count} values do not make a constant {meta}, or are more than {VALUES}")
    return (meta,)


def _values_torch(local: Local) -> str:
    attributes = attributes_of(local)
    meta = local.node.results[0].meta
    values = attributes["values"]
    assert isinstance(values, tuple)
    written = [literal(bool(v) if meta.dtype == "bool" else v) for v in values]
    text = f"torch.tensor({listed(written)}, dtype={_torch_dtype(meta)}, device=mesh.device)"
    if len(meta.shape) != 1:
        text += f".view({listed([str(size) for size in meta.shape])})"
    for dim, (factors, size) in enumerate(zip(local.node.rule.results[0], local.results[0], strict=True)):
        if factors and factors[0] in local.start:
            text += f".narrow({dim}, {_within(local, factors[0], size)}, {size})"
    return text


def _within(local: Local, factor: str, size: Extent) -> str:
    """Return where this rank's part begins; an empty one may lie behind the end, which no tensor has."""
    whole, start = local.whole[factor], local.start[factor]
    return start if isinstance(size, int) else f"min({start}, {whole})"


ARANGE = OpDef(
    name="arange",
    summary="start, start + step, … along one dim; positions",
    operands=(),
    infer=lambda _, attributes: (sized(attributes, "int64"),),
    rule=_new_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    torch=_range_torch,
)
FULL = OpDef(
    name="full",
    summary="one value everywhere",
    operands=(),
    infer=lambda _, attributes: (sized(attributes, "compute"),),
    rule=_new_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    torch=_full_torch,
)
CAUSAL_MASK = OpDef(
    name="causal_mask",
    summary="true, or 0 and elsewhere a value, where the query of a row sees the key of a column",
    operands=(),
    infer=_mask_infer,
    rule=_triangle_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    torch=_mask_torch,
)

CONSTANT = OpDef(
    name="constant",
    summary="a few values",
    operands=(),
    infer=_values_infer,
    rule=_new_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    torch=_values_torch,
)


def _triangle(name: str, summary: str) -> OpDef:
    return OpDef(
        name=name, summary=summary, operands=("x",), infer=like_first, rule=_triangle_rule, flops=per_element(0),
        backward_flops=per_element(1), differentiable=("x",), torch=_triangle_torch(name),
    )  # fmt: skip


TRIL = _triangle("tril", "the lower triangle of matrices, zeros above a diagonal")
TRIU = _triangle("triu", "the upper triangle of matrices, zeros below a diagonal")
CONSTANTS = (ARANGE, FULL, CAUSAL_MASK, CONSTANT, TRIL, TRIU)
