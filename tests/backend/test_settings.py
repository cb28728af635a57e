"""Covers: backend.settings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from backend.__main__ import main
from backend.settings import Settings


@pytest.mark.parametrize(
    ("environment", "flags", "expected"),
    [
        ({}, {}, ("127.0.0.1", 8000, True)),
        ({"SHARDWRIGHT_PORT": "9000"}, {}, ("127.0.0.1", 9000, True)),
        ({"SHARDWRIGHT_HOST": "0.0.0.0", "SHARDWRIGHT_TOKEN": "a" * 16}, {}, ("0.0.0.0", 8000, False)),
        ({}, {"host": "0.0.0.0", "token": "a" * 16}, ("0.0.0.0", 8000, False)),
        ({"SHARDWRIGHT_HOST": "0.0.0.0"}, {"host": "::1"}, ("::1", 8000, True)),
        ({"SHARDWRIGHT_PORT": "9000"}, {"port": 0}, ("127.0.0.1", 0, True)),
        ({"SHARDWRIGHT_HOST": "localhost"}, {}, ("localhost", 8000, True)),
    ],
)
def test_environment_and_flags(
    environment: dict[str, str],
    flags: dict[str, str | int],
    expected: tuple[str, int, bool],
) -> None:
    settings = Settings.from_environment(environment, **flags)
    assert (settings.host, settings.port, settings.is_local) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SHARDWRIGHT_HOST": ""}, 'host "" is no IP address. Write 127.0.0.1'),
        ({"SHARDWRIGHT_HOST": "my-host"}, 'host "my-host" is no IP address.'),
        ({"SHARDWRIGHT_PORT": "http"}, 'SHARDWRIGHT_PORT is "http". Write a number'),
        ({"SHARDWRIGHT_PORT": "70000"}, "port 70000 is out of range."),
        ({"SHARDWRIGHT_PORT": "٣"}, "Write a number from 0 to 65535."),
        ({"SHARDWRIGHT_HOST": "0.0.0.0"}, "so a token is required. Set SHARDWRIGHT_TOKEN"),
        ({"SHARDWRIGHT_TOKEN": "short"}, "the token needs at least 16 letters and digits"),
        ({"SHARDWRIGHT_TOKEN": "a b c d e f g h i j k"}, "the token needs at least 16 letters and digits"),
    ],
)
def test_refusals_say_the_remedy(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings.from_environment(environment)


@pytest.mark.parametrize(
    ("environment", "database"),
    [
        ({"SHARDWRIGHT_DATA": "/data"}, "sqlite:////data/plans.db"),
        ({"XDG_DATA_HOME": "/x"}, "sqlite:////x/shardwright/plans.db"),
        ({"SHARDWRIGHT_DATA": "/data", "SHARDWRIGHT_DATABASE": "postgresql://h/d"}, "postgresql://h/d"),
    ],
)
def test_where_plans_are_kept(environment: dict[str, str], database: str) -> None:
    assert Settings.from_environment(environment).database_url == database


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////proc/none/plans.db", "postgresql+none://h/d"])
def test_a_database_that_can_not_be_opened_is_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["backend", "--port", "0"])
    monkeypatch.setenv("SHARDWRIGHT_DATABASE", address)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "the database can't be opened: " in capsys.readouterr().err


def test_nothing_else_is_said_by_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "backend", "--port", "0"]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, env={"SHARDWRIGHT_DATABASE": "nonsense"}, cwd=root, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "the database can't be opened: " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_secrets_are_not_printed() -> None:
    settings = Settings(token="a" * 16, database_url="postgresql://user:secret@h/d")
    assert "aaaa" not in repr(settings)
    assert "secret" not in repr(settings)
