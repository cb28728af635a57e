"""Text of Python → its syntax tree, from any thread.

Up to Python 3.12 two threads that parse at the same time can fail with "AST constructor recursion depth mismatch",
since the count of the depth is one for all of them.
"""

from __future__ import annotations

import ast
from threading import Lock

_ONE_AT_A_TIME = Lock()


def parsed(text: str) -> ast.Module:
    """Return the tree of a text.

    Raises
    ------
    SyntaxError
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text)


def parsed_expression(text: str) -> ast.expr:
    """Return the tree of a text that is one expression; raises as `ast.parse` does."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, mode="eval").body
