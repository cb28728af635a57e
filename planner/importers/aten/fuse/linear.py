"""Products with weights as people write them: not transposed, and with a dim for parts that lie in one weight.

```text
matmul(x, wᵀ)                                       → linear(x, w)
chunk(linear(x, w), p, −1)                          → einsum(x, w as [p, n, k]), then one select a part
```
"""

from __future__ import annotations

from dataclasses import replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls, base, dims
from .parts import PIECES
from .rewrite import Pattern, Replacement, beside

_LETTERS = "bstuvw"


def _transposed(calls: Calls, root: Call) -> Replacement | None:
    """Take a product with a transposed weight as `linear`."""
    x, y = root.arguments
    turned = calls.maker(y)
    if turned is None or base(turned.target) not in ("t", "numpy_T", "transpose", "permute", "mT"):
        return None
    weight = turned.arguments[0]
    if not isinstance(weight, Ref) or weight.name not in calls.weights or len(calls.shape(weight)) != 2:
        return None
    if len(calls.shape(x)) < 2 or (base(turned.target) == "permute" and dims(turned.arguments[1], 2) != (1, 0)):
        return None
    return Replacement(calls=(replace(root, target="aten.linear.default", arguments=(x, weight)),))


def _parted(calls: Calls, root: Call) -> Replacement | None:
    """Give a weight whose product is cut into equal parts a dim for them, so that each part can be cut alike."""
    product = calls.maker(root.arguments[0])
    rank, count = len(root.results[0].shape), len(root.results)
    if product is None or count < 2 or len({meta.shape for meta in root.results}) > 1:
        return None
    if dims(root.arguments[2] if len(root.arguments) > 2 else 0, rank) != (rank - 1,) or not calls.inner(product):
        return None
    found = _product(calls, product)
    if found is None:
        return None
    x, weight, bias, inner = found
    size = root.results[0].shape[-1]
    width = calls.shape(x)[-1]
    last = calls.shape(weight)[-1] == width and base(inner[-1].target) == "linear"
    if not all(_own(calls, w) for w in (weight, bias) if w is not None) or len(calls.shape(x)) > len(_LETTERS) + 1:
        return None
    lead = _LETTERS[: len(calls.shape(x)) - 1]
    equation = f"{lead}k,{'pnk' if last else 'kpn'}->{lead}pn"
    whole: tuple[Size, ...] = (*calls.shape(x)[:-1], count, size)
    meta = TensorMeta(whole, root.results[0].dtype)
    listed = [beside(inner[-1], "parts", "aten.einsum.default", (equation, (x, weight)), meta)]
    assert isinstance(weight, Ref)
    shapes: dict[str, tuple[Size, ...]] = {weight.name: (count, size, width) if last else (width, count, size)}
    if bias is not None:
        assert isinstance(bias, Ref)
        shapes[bias.name] = (count, size)
        listed.append(beside(inner[0], "biased", "aten.add.Tensor", (Ref(listed[-1].name), bias), meta))
    source = Ref(listed[-1].name)
    renamed = {}
    for index, part in enumerate(root.results):
        listed.append(beside(root, f"pick{index}", "aten.select.int", (source, rank - 1, index), part))
        renamed[root.result(index)] = listed[-1].name
    return Replacement(calls=tuple(listed), inner=tuple(call.name for call in inner), renamed=renamed, shapes=shapes)


def _product(calls: Calls, call: Call) -> tuple[Argument, Argument, Argument | None, tuple[Call, ...]] | None:
    """Return x, weight, bias and the calls of a product, from the last to the first."""
    if base(call.target) == "linear" and len(call.arguments) in (2, 3):
        bias = call.arguments[2] if len(call.arguments) > 2 else None
        return call.arguments[0], call.arguments[1], bias, (call,)
    if base(call.target) == "matmul":
        return call.arguments[0], call.arguments[1], None, (call,)
    if base(call.target) == "add" and not call.keywords and len(call.arguments) == 2:
        product = calls.maker(call.arguments[0])
        if product is not None and base(product.target) == "matmul" and calls.inner(product):
            return product.arguments[0], product.arguments[1], call.arguments[1], (call, product)
    return None


def _own(calls: Calls, weight: Argument) -> bool:
    """Whether a value is a parameter that one call alone reads."""
    return isinstance(weight, Ref) and weight.name in calls.weights and len(calls.readers.get(weight.name, ())) == 1


TRANSPOSED = Pattern(name="transposed", roots=frozenset({"matmul"}), rewrite=_transposed)
PARTED = Pattern(name="parted", roots=PIECES, rewrite=_parted)
