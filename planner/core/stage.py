"""Names of what a stage of the pipeline has of its own: its copy of a parameter, a value that it received.

Invariant: `plain(at_stage(name, stage)) == name` for the name of an operator or parameter.
"""

from __future__ import annotations

import re

RECEIVE = "receive"
"""The operator by which a value comes to another stage."""
SEND_RECV = "send_recv"
"""Kind of the message by which it comes, and its gradient back: from one rank to one other."""
_STAGE = re.compile(r"@stage(\d+)")


def at_stage(name: str, stage: int) -> str:
    """Return the name of what stage `stage` has of `name`; result k of an operator stays result k."""
    head, mark, result = name.partition(":")
    return f"{head}@stage{stage}{mark}{result}"


def plain(name: str) -> str:
    """Return the name without its stage, as the model has it."""
    return _STAGE.sub("", name)


def received(value: str, stage: int) -> str:
    """Return the name of the operator by which a value comes to a stage, and of its result."""
    return at_stage(value.replace(":", "~"), stage)
