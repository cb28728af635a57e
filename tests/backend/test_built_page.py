"""What of the built page a browser has to load before it can draw anything."""

import gzip
import re
from pathlib import Path

from backend.page import page_folder

LIMIT = 220_000


def test_main_script_is_small() -> None:
    page: Path = page_folder()
    html = (page / "index.html").read_text("utf-8")
    scripts = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', html)
    assert scripts
    size = sum(len(gzip.compress((page / script).read_bytes())) for script in scripts)
    assert size <= LIMIT, f"{size} B compressed; load on demand what the first screen does not need"
