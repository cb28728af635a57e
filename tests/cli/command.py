"""Runs the command line in this process."""

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from planner.cli import app


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def shardwright(*arguments: str) -> Ran:
    result = CliRunner().invoke(app, list(arguments), prog_name="shardwright")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def answer(*arguments: str) -> Any:
    """Return the JSON of a command that has to succeed."""
    ran = shardwright(*arguments, "--json")
    assert ran.code == 0, ran.err
    return ran.json
