"""The Dockerfile does what it says: its lines are parsed and run, without Docker, until the health check passes.

Every stage gets an empty folder as its root, and a fresh environment where its base image is Python. The lines run as a
user without rights. Two commands need root in an image and are stand-ins here: `useradd`, and `install` with an owner.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest

from .server import free_port

ROOT = Path(__file__).parents[2]
NOBODY = 65534
TOKEN = "0123456789abcdef"
STAND_INS = {"useradd": "exit 0", "install": 'for last; do :; done; mkdir -p "$last"'}


@dataclass
class Stage:
    """One stage of the image."""

    image: str
    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)


def stages() -> list[Stage]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            found.append(Stage(image, name or "last"))
        elif word:
            found[-1].lines.append((word, rest.strip()))
    return found


def ignored(path: str) -> bool:
    patterns = [line for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line]
    parents = ["/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 2)]
    return any(fnmatch(p, q) or fnmatch(p, q.removeprefix("**/")) for p in parents for q in patterns)


class Machine:
    """Runs the lines of the stages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.roots: dict[str, Path] = {}
        self.environment: dict[str, str] = {}
        self.workdir = folder

    def run(self, command: str | list[str], **more: object) -> subprocess.Popen[bytes]:
        """Start a command without rights, in the stage's folder, with nothing of this environment but its PATH."""
        words = ["sh", "-euc", command] if isinstance(command, str) else command
        if os.getuid() == 0:
            # Reading is left to it, since Python itself may lie in root's home.
            drop = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--no-new-privs"]
            reads = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
            words = ["setpriv", *drop, *reads, "--bounding-set=-all,+dac_read_search", "--", *words]
        return subprocess.Popen(words, cwd=self.workdir, env=self.environment, **more)  # type: ignore[call-overload, no-any-return]

    def do(self, command: str | list[str]) -> None:
        process = self.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"{command}\n{output.decode()[-3000:]}"

    def stage(self, stage: Stage) -> None:
        self.root = root = self.roots[stage.name] = self.folder / stage.name
        self.paths = {"/wheels", *(rest for word, rest in stage.lines if word in {"WORKDIR", "VOLUME"})}
        fakes = root / "fakes"
        fakes.mkdir(parents=True)
        for name, body in STAND_INS.items():
            script(fakes / name, body)
        tools = root / "tools"
        link_tools(tools, without=() if stage.image.startswith("node:") else ("node", "npm", "npx"))
        self.environment = {
            "PATH": f"{fakes}:{tools}", "HOME": str(root), "LANG": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k.lower().startswith(("pip_", "npm_config_", "ssl_"))},
        }  # fmt: skip
        configured = Path.home() / ".npmrc"
        if configured.is_file():
            self.environment.setdefault("NPM_CONFIG_USERCONFIG", str(configured))
        own(root)
        self.workdir = root
        if stage.image.startswith("python:"):
            # Without a pip of its own, which would take a while: this one works for it.
            self.do([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")])
            python = root / "venv" / "bin" / "python"
            script(fakes / "pip", f'exec "{sys.executable}" -m pip --python "{python}" "$@"')
            self.environment |= {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            self.environment["PATH"] = f"{root / 'venv' / 'bin'}:{self.environment['PATH']}"
        for word, rest in stage.lines:
            self.act(word, rest)

    def here(self, text: str) -> str:
        """Return a text with the paths of the image as paths in its folder."""
        for path in self.paths:
            text = re.sub(rf"(?<![\w./]){re.escape(path)}(?![\w-])", str(self.root) + path, text)
        return text

    def act(self, word: str, rest: str) -> None:
        """Follow a line; USER, VOLUME, EXPOSE, HEALTHCHECK and CMD describe what is done at the end."""
        match word:
            case "RUN":
                self.do(self.here(rest))
            case "COPY":
                self.copy(rest)
            case "WORKDIR":
                self.enter(rest)
            case "ENV":
                name, _, value = rest.partition("=")
                self.environment[name] = self.here(value)

    def enter(self, rest: str) -> None:
        self.workdir = Path(self.here(rest))
        self.workdir.mkdir(parents=True, exist_ok=True)
        own(self.root)

    def copy(self, rest: str) -> None:
        words = shlex.split(rest)
        origin = re.fullmatch(r"--from=(\w+)", words[0])
        *sources, target = words[1:] if origin else words
        into = Path(self.here(target)) if target.startswith("/") else self.workdir / target
        for source in sources:
            start = self.roots[origin[1]] / source.lstrip("/") if origin else ROOT / source
            copy_tree(start, into, folder=target.endswith("/") or target == ".", context=origin is None)
        own(self.root)


def copy_tree(start: Path, into: Path, *, folder: bool, context: bool) -> None:
    """Copy as COPY does: the content of a folder, or a file."""
    if start.is_file():
        target = into / start.name if folder else into
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(start, target)
        return
    assert start.is_dir(), start
    for path in sorted(start.rglob("*")):
        name = str(path.relative_to(ROOT)) if context else ""
        if path.is_file() and not (context and ignored(name)):
            target = into / path.relative_to(start)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def link_tools(folder: Path, *, without: tuple[str, ...]) -> None:
    """Make a folder with the commands of this machine, but those that a stage's image lacks."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for tool in Path(place).glob("*") if place else ():
            if tool.name not in without and not (folder / tool.name).is_symlink():
                (folder / tool.name).symlink_to(tool)


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def own(folder: Path) -> None:
    if os.getuid() == 0:
        subprocess.run(["chown", "-hR", f"{NOBODY}:{NOBODY}", str(folder)], check=True)


@pytest.fixture
def machine() -> Iterator[Machine]:
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("running as root, and there is no setpriv to run without rights")
    # Not pytest's folder, into which only one user may look.
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder))


@pytest.mark.slow
def test_lines_run_until_the_health_check_passes(machine: Machine) -> None:
    port = str(free_port())
    found = stages()
    for stage in found:
        machine.stage(stage)
    last = dict(found[-1].lines)
    assert last["USER"] == "shardwright"
    assert last["VOLUME"] == "/data"
    check = json.loads(last["HEALTHCHECK"].partition(" CMD ")[2].replace("8000", port))
    command = json.loads(last["CMD"].replace("8000", port))
    assert json.dumps(command).count(port) == 1

    refused = machine.run(command, stderr=subprocess.PIPE)
    _, message = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert b"Set SHARDWRIGHT_TOKEN" in message

    machine.environment["SHARDWRIGHT_TOKEN"] = TOKEN
    server = machine.run(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while machine.run(check, stderr=subprocess.DEVNULL).wait() != 0:
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        status = Path(f"/proc/{server.pid}/status")
        if status.is_file():
            (ids,) = [line for line in status.read_text().splitlines() if line.startswith("Uid:")]
            assert "0" not in ids.split()
    finally:
        server.terminate()
        server.wait(20)
    # Plans are on the volume.
    assert (machine.root / "data" / "plans.db").is_file()
