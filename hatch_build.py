"""Put the web page into the package: ``frontend/`` → ``backend/webui/``.

hatchling runs this before it builds a wheel, an sdist or an editable install, so that none of them
can come without the page. ``python hatch_build.py`` does the same in a checkout.
"""

import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


def build_webui(root: Path) -> Path:
    """Build the page afresh and return the folder that holds it.

    The folder is replaced as a whole: a file that left ``frontend/`` must not live on in a wheel.
    """
    source, target = root / "frontend", root / "backend" / "webui"
    if not (source / "index.html").is_file():
        raise SystemExit(f"{source / 'index.html'} is missing: build from a full checkout or sdist")
    shutil.rmtree(target, ignore_errors=True)
    # `copy`, not `copy2`: make compares the time of the build, not that of the source.
    shutil.copytree(source, target, copy_function=shutil.copy)
    return target


if __name__ == "__main__":
    print(f"built {build_webui(ROOT).relative_to(ROOT)}")
else:
    # Only the build environment has hatchling; running the file must not need it.
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class WebUIBuildHook(BuildHookInterface[Any]):
        """The hook that ``[tool.hatch.build.hooks.custom]`` names."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the page before hatchling collects the files."""
            build_webui(Path(self.root))
