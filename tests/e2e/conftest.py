"""One server and one browser for all end-to-end tests; a fresh context for each, which may not report any fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, WebError, expect, sync_playwright

from tests.backend.server import Server

from .chromium import FLAGS, find_chromium
from .designer import Designer, Rest

ROOT = Path(__file__).parents[2]
# Waits end as soon as what they wait for is there; the limit is for a machine under load.
PATIENCE_MS = 60_000


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with its own data and the page of this checkout, built if it is not."""
    subprocess.run([sys.executable, "hatch_build.py"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with Server(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        reason = "no Chromium: set CHROMIUM to its path, or install Debian's package chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=list(FLAGS))


class Faults:
    """What the pages of a test complained about, and what they may complain about."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._allowed: list[str] = []

    def allow(self, pattern: str) -> None:
        """Expect console errors that match, e.g. the browser's own line about a refused request."""
        self._allowed.append(pattern)

    def watch(self, context: BrowserContext) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.found.append(f"console: {message.text}")

        def on_error(error: WebError) -> None:
            self.found.append(f"page: {error.error}")

        context.on("console", on_console)
        context.on("weberror", on_error)

    def unexpected(self) -> list[str]:
        return [text for text in self.found if not any(re.search(pattern, text) for pattern in self._allowed)]


@pytest.fixture
def faults() -> Iterator[Faults]:
    faults = Faults()
    yield faults
    assert faults.unexpected() == []


NewContext = Callable[..., BrowserContext]


@pytest.fixture
def new_context(browser: Browser, server: Server, faults: Faults) -> Iterator[NewContext]:
    """Return what makes a browser context, i.e. a person at a machine of their own."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(**{
            "base_url": f"http://127.0.0.1:{server.port}", "viewport": {"width": 1440, "height": 900},
            "reduced_motion": "reduce", "color_scheme": "light", "locale": "en-US", **options,
        })  # fmt: skip
        context.set_default_timeout(PATIENCE_MS)
        faults.watch(context)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def page(new_context: NewContext) -> Page:
    return new_context().new_page()


@pytest.fixture
def rest(server: Server) -> Rest:
    return Rest(server)


@pytest.fixture
def designer(page: Page, rest: Rest) -> Designer:
    """A small plan, open in the page."""
    return Designer(page, rest, rest.new_plan()["id"]).open()
