"""Bundles with a mistake, for proofs that must fail; importable by name, since a worker's process loads them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from planner import Plan, compose


def without_an_all_reduce(plan: Plan) -> Mapping[str, str]:
    """Leave the sum of partial results out."""
    files = compose.bundle(plan)
    name = "parallel/steps.py"
    mark = "dist.all_reduce("
    assert mark in files[name], files[name]
    return files | {name: files[name].replace(mark, "(lambda *a, **k: None)(")}


def that_fails_on_ranks(plan: Plan) -> Mapping[str, str]:
    """Raise where partial results are added up."""
    files = compose.bundle(plan)
    name = "parallel/steps.py"
    failing = "\n\ndef _fail(*_, **__):\n    raise ArithmeticError('no such sum')\n"
    return files | {name: files[name].replace("dist.all_reduce(", "_fail(") + failing}


def that_does_not_compile(plan: Plan) -> Mapping[str, str]:
    """Write a model that is no Python."""
    return compose.bundle(plan) | {"model.py": "def"}


def that_kills_its_process(plan: Plan) -> Mapping[str, str]:
    """End the worker as running out of memory would."""
    os._exit(9)


def that_fails(plan: Plan) -> Mapping[str, str]:
    """Fail in a way that nobody foresaw."""
    raise ZeroDivisionError("of all things")


def that_takes_for_ever(plan: Plan) -> Mapping[str, str]:
    """Leave a file behind that tells where the worker is, and wait."""
    Path(os.environ["TMPDIR"], "pid").write_text(str(os.getpid()))
    time.sleep(600)
    return {}
