"""The quick tests in two processes side by side: `python -m tests [ARGUMENTS OF PYTEST]`.

A test waits for one core, for a browser or for ranks, so that one process leaves half of two cores idle. What the first
process says is printed when the other is done. Where files are named, they run in one process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ASIDE = ("tests/backend", "tests/e2e", "tests/exporters")
"""What takes about half of the time, and waits most."""
NOTHING_CHOSEN = 5
"""How pytest ends when no test is as asked for."""


def main(arguments: list[str]) -> int:
    """Run the tests and return 0 if both processes found nothing wrong."""
    pytest = [sys.executable, "-m", "pytest", "-m", "not slow", *arguments]
    if any(Path(argument.partition("::")[0]).exists() for argument in arguments):
        return subprocess.run(pytest, check=False).returncode
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        aside = subprocess.Popen([*pytest, *ASIDE], stdout=said, stderr=subprocess.STDOUT)
        others = subprocess.run([*pytest, *(f"--ignore={folder}" for folder in ASIDE)], check=False)
        codes = {others.returncode, aside.wait()}
        said.seek(0)
        print(said.read(), flush=True)
    # A process that a signal ended has a negative code.
    wrong = codes - {0, NOTHING_CHOSEN}
    return abs(wrong.pop()) if wrong else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
