"""Noun: which lines of exported code stand for which parts of a plan's view.

A class that several runs of layers share is written once, so one line can stand for a node or an edge of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMark:
    """Lines of a file that one operator, one resharding or one parameter's update is written on.

    Parameters
    ----------
    path
        File of the bundle.
    first, last
        Numbers of the first and the last line, from 1; comments above a call are with it.
    nodes, edges
        Ids of the view's nodes and edges that the lines stand for.
    """

    path: str
    first: int
    last: int
    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
