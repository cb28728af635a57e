"""What importing costs, and what the core may know. import-linter holds the rest of the layers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE_FILES = sorted((ROOT / "planner" / "core").rglob("*.py"))

HEAVY = ["fastapi", "onnx", "plotly", "torch", "transformers"]


def test_import_planner_loads_nothing_heavy() -> None:
    program = f"import sys, planner; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def imported_packages(source: str) -> set[str]:
    """Return the top-level packages that absolute imports in `source` name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("source", "packages"),
    [
        ("import numpy as np, os.path", {"numpy", "os"}),
        ("from torch.nn import Module", {"torch"}),
        ("def f():\n    import plotly", {"plotly"}),
        ("from ..errors import PlannerError\nfrom . import mesh", set()),
    ],
)
def test_imported_packages(source: str, packages: set[str]) -> None:
    assert imported_packages(source) == packages


def test_core_exists() -> None:
    assert CORE_FILES, "planner/core holds no Python file, so the test below checks nothing"


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_core_imports_only_the_standard_library(path: Path) -> None:
    foreign = imported_packages(path.read_text(encoding="utf-8")) - sys.stdlib_module_names
    # Imports of the layers around it are relative, and import-linter sees to them.
    assert foreign == set()
