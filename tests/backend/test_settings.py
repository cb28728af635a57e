"""Covers: backend.settings."""

import re

import pytest

from backend.settings import Settings


@pytest.mark.parametrize(
    ("environment", "flags", "expected"),
    [
        ({}, {}, ("127.0.0.1", 8000, True)),
        ({"SHARDWRIGHT_PORT": "9000"}, {}, ("127.0.0.1", 9000, True)),
        ({"SHARDWRIGHT_HOST": "0.0.0.0"}, {}, ("0.0.0.0", 8000, False)),
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
    ],
)
def test_refusals_say_the_remedy(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings.from_environment(environment)
