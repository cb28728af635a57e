"""What an operator allows: one einsum-like line of factors, and its terms.

`batch seq k, n k -> batch seq n` says: two operands, one result; a *factor* is an index of the operator's iteration
space, and each tensor dim is an ordered product of factors, `(g r e)` when there are several. A dim of
size 1 that is no index, such as one that broadcasts, is written `1`. A factor in no result is a *reduction*: sharding
it makes the result Partial. *Terms* (`x*weight + bias`) say that the operator is a sum of
products of operands; an operand in no term is nonlinear and never Partial (`docs/concepts/rules.md`).

Invariants: every factor has one size; a term names operands of the rule; `str(rule)` shows line and terms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..errors import RuleError
from .symbol import Polynomial, Size

Factors = tuple[str, ...]
TensorFactors = tuple[Factors, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRule:
    """The factor line of one operator on given shapes; build it with `ShardingRule.parse`.

    Parameters
    ----------
    operands, results
        Per tensor, per dim, the ordered factors.
    terms
        Per product term, the positions of its operands.
    sizes
        Size of every factor.
    blocked
        Factors that may not be sharded, with the reason.
    even
        Factors that must divide (heads, groups, experts): they never get uneven shards.
    least
        Smallest extents that a sharded factor may be cut down to, where a device reaches over to its neighbours only.
    special
        Factors whose sharding replaces the operator by a small graph of parts (`OpDef.parts`).
    reduce
        Reduction that completes the result when a reduction factor is sharded.
    """

    operands: tuple[TensorFactors, ...]
    results: tuple[TensorFactors, ...]
    terms: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[str, Size], ...]
    blocked: tuple[tuple[str, str], ...] = ()
    even: frozenset[str] = frozenset()
    least: tuple[tuple[str, int], ...] = ()
    special: frozenset[str] = frozenset()
    reduce: str = "sum"

    @staticmethod
    def parse(
        line: str,
        *,
        shapes: tuple[tuple[Size, ...], ...],
        names: tuple[str, ...] = (),
        terms: str = "",
        sizes: dict[str, Size] | None = None,
        blocked: dict[str, str] | None = None,
        even: frozenset[str] = frozenset(),
        least: dict[str, int] | None = None,
        special: frozenset[str] = frozenset(),
        reduce: str = "sum",
    ) -> ShardingRule:
        """Read a factor line.

        Parameters
        ----------
        line
            Such as `batch seq k, n k -> batch seq n`.
        shapes
            Shapes of the operands, then of the results: they give the factor sizes.
        names
            Operand names that `terms` uses.
        terms
            Such as `x*weight + bias`; empty if the operator is linear in nothing.
        sizes
            Sizes of factors that the shapes alone do not fix.
        """
        left, right = (side.strip() for side in line.split("->"))
        results = tuple(_tensor(part) for part in right.split(","))
        # Nothing before the arrow is no operand, or one without dims.
        operands = tuple(_tensor(part) for part in left.split(",")) if left or len(shapes) > len(results) else ()
        positions = tuple(
            tuple(names.index(name.strip()) for name in term.split("*")) for term in (terms.split("+") if terms else [])
        )
        return ShardingRule(
            operands=operands,
            results=results,
            terms=positions,
            sizes=_sizes(operands + results, shapes, dict(sizes or {}), line),
            blocked=tuple((blocked or {}).items()),
            even=even,
            least=tuple((least or {}).items()),
            special=special,
            reduce=reduce,
        )

    @property
    def factors(self) -> Factors:
        """All factors in order of appearance."""
        return tuple(name for name, _ in self.sizes)

    @property
    def result_factors(self) -> frozenset[str]:
        """Factors that are an index of some result."""
        return frozenset(f for tensor in self.results for dim in tensor for f in dim)

    @property
    def reductions(self) -> Factors:
        """Factors that no result has."""
        kept = self.result_factors
        return tuple(f for f in self.factors if f not in kept)

    def size(self, factor: str) -> Size:
        """Return the size of a factor; KeyError for an unknown one."""
        return dict(self.sizes)[factor]

    def role(self, factor: str) -> str:
        """Return `blocked`, `special`, `reduction` or `pass-through`."""
        if factor in dict(self.blocked):
            return "blocked"
        if factor in self.special:
            return "special"
        return "reduction" if factor in self.reductions else "pass-through"

    def factors_of(self, operand: int) -> frozenset[str]:
        """Return the factors of one operand."""
        return frozenset(f for dim in self.operands[operand] for f in dim)

    def __str__(self) -> str:
        line = f"{', '.join(map(_print, self.operands))} -> {', '.join(map(_print, self.results))}"
        return line.strip()


def _tensor(text: str) -> TensorFactors:
    dims = re.findall(r"\(([^)]*)\)|(\S+)", text)
    return tuple(tuple(group.split()) if group else () if single == "1" else (single,) for group, single in dims)


def _print(tensor: TensorFactors) -> str:
    return " ".join(f"({' '.join(dim)})" if len(dim) > 1 else "".join(dim) or "1" for dim in tensor)


def _sizes(
    tensors: tuple[TensorFactors, ...], shapes: tuple[tuple[Size, ...], ...], known: dict[str, Size], line: str
) -> tuple[tuple[str, Size], ...]:
    order: list[str] = []
    merged: list[tuple[Factors, Size]] = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        if len(tensor) != len(shape):
            raise RuleError("rule.rank", f"Rule {line!r} does not fit shapes {shapes}.", "Give one entry a dim.")
        for factors, size in zip(tensor, shape, strict=True):
            order += [f for f in factors if f not in order]
            if len(factors) == 1:
                _agree(known, factors[0], size, line)
            else:
                merged.append((factors, size))
    for factors, size in merged:
        open_factors = [f for f in factors if f not in known]
        if len(open_factors) == 1 and isinstance(size, int):
            _agree(known, open_factors[0], size // prod(_integer(known[f]) for f in factors if f in known), line)
        missing = [f for f in factors if f not in known]
        if missing:
            raise RuleError(
                "rule.size", f"Rule {line!r}: nothing says the size of {', '.join(missing)} in ({' '.join(factors)}).",
                "Give sizes of all but one factor of a merged dim whose size is a number.",
            )  # fmt: skip
        product: Size = 1
        for factor in factors:
            product = product * known[factor]
        if Polynomial.of(product) != Polynomial.of(size):
            raise RuleError("rule.size", f"Rule {line!r}: ({' '.join(factors)}) has size {product}, the dim {size}.")
    return tuple((factor, known[factor]) for factor in order)


def _agree(known: dict[str, Size], factor: str, size: Size, line: str) -> None:
    if known.setdefault(factor, size) != size:
        raise RuleError("rule.size", f"Rule {line!r}: factor {factor} has sizes {known[factor]} and {size}.")


def _integer(size: Size) -> int:
    if isinstance(size, Polynomial):
        raise RuleError("rule.size", f"A merged dim needs an integer factor size, not {size}.")
    return size
