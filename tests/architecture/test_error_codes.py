"""docs/reference/errors.md knows every code, and no other."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
# A code, or a pattern of codes where a part of it is filled in at run time.
CODE = re.compile(r"[a-z]+\.[a-z*][a-z*-]*")
# Who raises JSON's errors puts its own prefix before them.
JSON_PREFIXES = ("model", "document")


def texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(p.value if isinstance(p, ast.Constant) else "*" for p in parts)
        case ast.IfExp(body=yes, orelse=no):
            yield from (*texts(yes), *texts(no))


def candidates(tree: ast.Module) -> Iterator[str]:
    """Yield what stands where codes stand: first argument of an error, `code=…`, `code = …`, `SYNTAX = …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = [text for argument in node.args[:1] for text in texts(argument)]
            if name == "fail":
                yield from (f"{prefix}.{text}" for prefix in JSON_PREFIXES for text in first)
            elif name == "finding":
                yield from (f"graph.{text}" for text in first)
            elif name.lower().endswith(("error", "_broken", "refusal")):
                yield from first
            yield from (text for k in node.keywords if k.arg == "code" for text in texts(k.value))
        elif isinstance(node, ast.Assign) and {getattr(t, "id", "") for t in node.targets} & {"code", "SYNTAX"}:
            yield from texts(node.value)


def raised() -> set[str]:
    files = [path for path in (ROOT / "planner").rglob("*.py") if "runtime" not in path.parts]
    found = {text for path in files for text in candidates(ast.parse(path.read_text("utf-8")))}
    # The wildcards alone are where a code is passed on.
    return {text for text in found if CODE.fullmatch(text) and text not in {"graph.*", "*.*"}}


def documented() -> list[str]:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_codes_are_found() -> None:
    assert {"layout.axis-reused", "model.json-syntax", "graph.loss", "rule.factor-even", "cli.usage"} <= raised()
    assert len(raised()) > 80


def test_every_code_is_documented_once() -> None:
    listed = documented()
    assert sorted(listed) == sorted(set(listed))
    missing = [code for code in sorted(raised()) if not any(fnmatchcase(entry, code) for entry in listed)]
    assert not missing


def test_every_documented_code_exists() -> None:
    codes = raised()
    assert not [entry for entry in documented() if not any(fnmatchcase(entry, code) for code in codes)]
