"""Products of matrices, with a parameter or of each other, and products said by index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_letters

from .elements import scaled
from .site import Row, Site, UnloweredError


def _linear(at: Site) -> str:
    x = at.x(0, "input")
    operands = [at.x(1, "weight")] + ([at.x(2, "bias")] if at.given(2, "bias") else [])
    if at.rank(x) == 1:
        return at.squeezed(at.node("linear", at.unsqueezed(x, 0), *operands), 0)
    return at.node("linear", x, *operands)


def _matmul(at: Site) -> str:
    return product(at, at.x(0, "self"), at.x(1, "other"))


def product(at: Site, x: str, y: str) -> str:
    """Return x·y as torch.matmul has it: a vector is a row on the left, a column on the right."""
    row, column = at.rank(x) == 1, at.rank(y) == 1
    made = at.node("matmul", at.unsqueezed(x, 0) if row else x, at.unsqueezed(y, 1) if column else y)
    rank = at.rank(made)
    gone = [rank - 2] * row + [rank - 1] * column
    return at.squeezed(made, *gone)


def _added(op: str) -> Row:
    def row(at: Site) -> str:
        scales = {name: at.real(place, name, 1.0) for place, name in ((3, "beta"), (4, "alpha"))}
        bias = at.x(0, "self")
        given = {name: value for name, value in scales.items() if value != 1}
        return at.node(op, bias, at.x(1, "mat1"), at.x(2, "mat2"), **given)

    return row


def _outer(at: Site) -> str:
    return at.node("mul", at.unsqueezed(at.x(0, "self"), 1), at.unsqueezed(at.x(1, "vec2"), 0))


def _einsum(at: Site) -> str:
    equation = at.argument(0, "equation")
    assert isinstance(equation, str)
    operands = at.tensors(1, "operands")
    read, made = _letters(equation, [at.rank(x) for x in operands])
    for side in (*read, made):
        if len(set(side)) < len(side):
            raise UnloweredError(f"its equation {equation} takes a diagonal")
    x, letters = operands[0], read[0]
    if len(operands) == 1:
        return _single(at, x, letters, made)
    for place, (y, others) in enumerate(zip(operands[1:], read[1:], strict=True), start=1):
        later = set("".join((*read[place + 1 :], made)))
        kept = made if place == len(operands) - 1 else "".join(c for c in dict.fromkeys(letters + others) if c in later)
        x, letters = _pair(at, (x, letters), (y, others), kept), kept
    return x


def _pair(at: Site, left: tuple[str, str], right: tuple[str, str], made: str) -> str:
    """Return the product of two operands; a dim of size 1 that is repeated goes, as it counts once."""
    sizes: dict[str, object] = {}
    for x, letters in (left, right):
        for letter, size in zip(letters, at.meta(x).shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise UnloweredError(f"its index {letter} stands for the sizes {sizes[letter]} and {size}")
    return at.node("einsum", left[0], right[0], equation=f"{left[1]},{right[1]}->{made}")


def _single(at: Site, x: str, letters: str, made: str) -> str:
    gone = tuple(i for i, letter in enumerate(letters) if letter not in made)
    if gone:
        x = at.node("sum", x, dims=gone)
    left = [letter for letter in letters if letter in made]
    return at.permuted(x, [left.index(letter) for letter in made])


def _letters(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the letters of operands and result, with those that `...` and a missing result stand for."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    sides = left.split(",")
    spare = [c for c in ascii_letters if c not in equation]
    hidden = max([rank - len(side.replace("...", "")) for side, rank in zip(sides, ranks, strict=True)
                  if "..." in side], default=0)  # fmt: skip
    dots = "".join(spare[:hidden])
    read = [
        side.replace("...", dots[hidden - (rank - len(side.replace("...", ""))) :] if hidden else "")
        for side, rank in zip(sides, ranks, strict=True)
    ]
    if not arrow:
        once = sorted(c for c in set(re.sub(r"[.,]", "", left)) if left.count(c) == 1)
        return read, dots + "".join(once)
    return read, right.replace("...", dots)


def _bilinear(at: Site) -> str:
    made = at.node("einsum", at.x(0, "input1"), at.x(2, "weight"), equation="bi,oij->boj")
    made = at.node("einsum", made, at.x(1, "input2"), equation="boj,bj->bo")
    return at.node("add", made, at.x(3, "bias")) if at.given(3, "bias") else made


def _cosine(at: Site) -> str:
    """Return x·y / (|x|·|y|) along a dim, each length held above eps."""
    x, y = at.x(0, "x1"), at.x(1, "x2")
    dim, eps = at.dim(2, "dim", at.rank(x), 1), at.real(3, "eps", 1e-8)
    lengths = [
        at.node("clamp", at.node("sqrt", at.node("sum", at.node("pow", v, exponent=2), dims=(dim,))), low=eps,
                high=float("inf"))
        for v in (x, y)
    ]  # fmt: skip
    return at.node("div", at.node("sum", at.node("mul", x, y), dims=(dim,)), at.node("mul", *lengths))


def _scaled_add(at: Site) -> str:
    """Return beta · x + alpha · Σ of the products of two batches of matrices."""
    total = at.node("sum", at.node("matmul", at.x(1, "batch1"), at.x(2, "batch2")), dims=(0,))
    left = scaled(at, at.x(0, "self"), at.real(3, "beta", 1.0))
    return at.node("add", left, scaled(at, total, at.real(4, "alpha", 1.0)))


PRODUCTS: Mapping[str, Row] = {
    "aten.linear.default": _linear,
    **dict.fromkeys((
        "aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default",
        "aten.vdot.default",
    ), _matmul),
    "aten.addmm.default": _added("addmm"),
    "aten.baddbmm.default": _added("baddbmm"),
    "aten.addbmm.default": _scaled_add,
    **dict.fromkeys(("aten.outer.default", "aten.ger.default"), _outer),
    "aten.einsum.default": _einsum,
    "aten.bilinear.default": _bilinear,
    "aten.cosine_similarity.default": _cosine,
}  # fmt: skip
"""Calls that multiply and add up."""
