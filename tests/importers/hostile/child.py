"""Reads files in a process that may take 1 GiB, and that notes whatever runs, is imported or is opened besides.

Run as a script: folder of files, then one line of JSON a file comes out.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

LIMIT = 1 << 30
FORBIDDEN = (
    "exec",
    "import",
    "pickle.",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "marshal.",
    "shutil.",
    "builtins.",
)
HARMLESS = ("os.listdir", "os.scandir", "builtins.id")


def main(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    from planner.errors import ModelError
    from planner.importers import load_model

    # What is imported late on the way is imported by good files.
    for path in sorted((folder / "good").iterdir()):
        load_model(path)
    "".encode("cp437")  # how old archives write names
    noted: list[str] = []
    allowed = ""

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]) != allowed:
            noted.append(f"open {arguments[0]!r}"[:200])
        elif event.startswith(FORBIDDEN) and event not in HARMLESS:
            noted.append(f"{event} {str(arguments[:1])[:100]}")

    sys.addaudithook(note)
    for path in sorted((folder / "bad").iterdir()):
        allowed = str(path)
        begin = time.process_time()
        try:
            load_model(path)
            outcome = "a graph"
        except ModelError as problem:
            outcome = problem.code if "\n" not in str(problem) else "more than one line"
        except BaseException as problem:
            outcome = f"{type(problem).__name__}: {problem}"[:300]
        seconds = time.process_time() - begin
        found, noted[:] = list(noted), []
        print(json.dumps({"file": path.name, "outcome": outcome, "noted": found, "seconds": seconds}), flush=True)
    print(json.dumps({"file": "", "peak": _peak()}))


def _peak() -> int:
    """Return the most bytes that this program held; `ru_maxrss` would count what its parent had before it began."""
    (line,) = (line for line in Path("/proc/self/status").read_text("utf-8").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]))
