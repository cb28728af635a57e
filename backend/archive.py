"""A bundle of files as a zip archive whose bytes depend on the files only."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

# The earliest time that the format can say; the clock would make every archive another one.
EPOCH = (1980, 1, 1, 0, 0, 0)
FILE, SCRIPT = 0o100644, 0o100755


def zip_of(files: Mapping[str, str]) -> bytes:
    """Return the archive; scripts are executable, as `planner.export` writes them."""
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for path, text in sorted(files.items()):
            info = ZipInfo(path, EPOCH)
            info.compress_type = ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (SCRIPT if path.endswith(".sh") else FILE) << 16
            archive.writestr(info, text.encode())
    return buffer.getvalue()
