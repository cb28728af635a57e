"""Put the web page into the package: ``frontend/`` → ``backend/webui/``, built by npm.

hatchling runs this before it builds a wheel, an sdist or an editable install, so that none of them
can come without the page. ``python hatch_build.py`` does the same in a checkout. A page that was
built from the same sources is left alone, which is how an sdist installs without Node.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


def build_webui(root: Path) -> Path:
    """Build the page unless it is there already, and return the folder that holds it."""
    source, target = root / "frontend", root / "backend" / "webui"
    stamp, digest = target / ".stamp", _digest(source)
    if stamp.is_file() and stamp.read_text("utf-8") == digest:
        return target
    npm = shutil.which("npm")
    if npm is None:
        if (target / "index.html").is_file():
            return target
        raise SystemExit("The web page is not built and npm is not on PATH: install Node 20 or newer, or use a wheel.")
    lock, installed = source / "package-lock.json", source / "node_modules" / ".package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=source, check=True)
    subprocess.run([npm, "run", "build"], cwd=source, check=True)
    stamp.write_text(digest, "utf-8")
    return target


def _digest(source: Path) -> str:
    """Return a hash of all that the page is made of."""
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        parts = path.relative_to(source).parts
        if parts[0] != "node_modules" and path.is_file():
            digest.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


if __name__ == "__main__":
    print(f"the page is in {build_webui(ROOT).relative_to(ROOT)}")
else:
    # Only the build environment has hatchling; running the file must not need it.
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class WebUIBuildHook(BuildHookInterface[Any]):
        """The hook that ``[tool.hatch.build.hooks.custom]`` names."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the page before hatchling collects the files."""
            build_webui(Path(self.root))
