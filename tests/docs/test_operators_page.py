"""docs/reference/operators.md is what the table of operators says; `--update-golden` writes it anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from planner.core.graph import Node
from planner.core.strategy import ShardStrategy
from planner.ops import OPS
from tests.ops.cases import CASES
from tests.ops.placements import LINE, parts_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"
HEAD = """# Operators

Every operator that a plan can hold, with its line of factors on example shapes; [rules](../concepts/rules.md) tells
how to read it. A factor that no other column names is passed through or a reduction. The page is generated from the
table `OPS`, and a test holds it to it.

"""


def _shown(text: str) -> str:
    return text.replace("|", "\\|")


def _terms(one: Node) -> str:
    names = OPS[one.op].operand_names
    return " + ".join("·".join(names[i] for i in term) for term in one.rule.terms) or "none"


def _special(one: Node) -> Iterator[str]:
    """Yield, per special factor, the parts that an operator has when it is sharded."""
    for factor in one.rule.factors:
        if factor in one.rule.special:
            parts = parts_of(one, ShardStrategy.of({factor: ("a",)}), LINE)
            yield f"`{factor}`: {' → '.join(part.op for part, _ in parts)}"


def _limits(one: Node) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for factor, reason in one.rule.blocked:
        reasons.setdefault(reason, []).append(f"`{factor}`")
    yield from (f"{', '.join(factors)}: {reason}" for reason, factors in reasons.items())
    even = [f"`{factor}`" for factor in one.rule.factors if factor in one.rule.even]
    if even:
        yield f"{', '.join(even)}: cut into equal parts only"
    yield from (f"`{factor}`: {least} to a device at least" for factor, least in one.rule.least)


def page() -> str:
    """Return the text of the page."""
    first: dict[str, Node] = {}
    for one in CASES.values():
        first.setdefault(one.op, one)
    rows = ["| operator | what it gives | line of factors | terms | special | blocked, even |", "|---" * 6 + "|"]
    for name, op in OPS.items():
        one = first[name]
        always = parts_of(one, ShardStrategy(), LINE)
        special = "; ".join(_special(one))
        if always != ((one, ShardStrategy()),):
            whole = f"always {' → '.join(part.op for part, _ in always)}"
            special = f"{whole}; {special}" if special else whole
        cells = [f"`{name}`", op.summary, f"`{one.rule}`", _terms(one), special, "; ".join(_limits(one))]
        rows.append(f"| {' | '.join(map(_shown, cells))} |")
    return HEAD + "\n".join(rows) + "\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page(), "--update-golden writes it anew"
