"""The build hook: when it builds the page, and when it takes the one that is there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, where no npm is installed."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "frontend" / "src").mkdir(parents=True)
    (tmp_path / "frontend" / "src" / "main.ts").write_text("draw()")
    return tmp_path


def page(checkout: Path, stamp: str) -> Path:
    folder = checkout / "backend" / "webui"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("built")
    (folder / ".stamp").write_text(stamp)
    return folder


def test_without_npm_and_page_it_says_what_to_install(hook: ModuleType, checkout: Path) -> None:
    with pytest.raises(SystemExit, match="install Node 20 or newer"):
        hook.build_webui(checkout)


def test_without_npm_it_takes_the_page_of_an_sdist(hook: ModuleType, checkout: Path) -> None:
    folder = page(checkout, "of other sources")
    assert hook.build_webui(checkout) == folder


def test_page_of_the_same_sources_is_left_alone(
    hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = page(checkout, hook._digest(checkout / "frontend"))
    monkeypatch.setattr(hook.shutil, "which", lambda _: pytest.fail("it asked for npm"))
    assert hook.build_webui(checkout) == folder


def test_digest_is_of_sources_only(hook: ModuleType, checkout: Path) -> None:
    source = checkout / "frontend"
    before = hook._digest(source)
    (source / "node_modules").mkdir()
    (source / "node_modules" / "x.js").write_text("installed")
    assert hook._digest(source) == before
    (source / "src" / "main.ts").write_text("draw(2)")
    assert hook._digest(source) != before
