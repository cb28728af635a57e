"""Finds a Chromium on this machine, or has Debian install one; Playwright's own browsers are never downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("chromium", "fonts-dejavu-core")

# The windows of a headless browser have an address bar, whose suggestions are two pages that load with every window, in
# a third of a test's time. Of two such flags the last one counts, so that what Playwright turns off is said again.
UNWANTED = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "AimEnabled", "DestroyProfileOnBrowserClose",
    "HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying",
    "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
)  # fmt: skip
# Software painting, nothing over the network, the same pixels everywhere.
FLAGS = (
    f"--disable-features={','.join(UNWANTED)}",
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--force-color-profile=srgb",
)  # fmt: skip


def find_chromium() -> str | None:
    """Return the path of a browser: `$CHROMIUM`, one on PATH, or one that apt installs when we are root."""
    if named := os.environ.get("CHROMIUM"):
        return named
    if found := _on_path():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-qq"], ["install", "-y", "-qq", *PACKAGES]):
            subprocess.run(["apt-get", *arguments], env=environment, stdout=subprocess.DEVNULL, check=False)
    return _on_path()


def _on_path() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


if __name__ == "__main__":
    print(find_chromium() or "no Chromium here: the end-to-end tests are skipped")
