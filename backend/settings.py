"""Settings of the server: the one module that reads environment variables.

==========================  ====================  ===============================================================
variable                    default               meaning
==========================  ====================  ===============================================================
``SHARDWRIGHT_HOST``        127.0.0.1             IP address (or ``localhost``) to listen on
``SHARDWRIGHT_PORT``        8000                  port to listen on; 0 lets the system choose
``SHARDWRIGHT_TOKEN``       none                  what clients have to show; needed on any address but loopback
``SHARDWRIGHT_DATA``        the user's data       folder of the database and of traced models; made if it
                            folder                is not there
``SHARDWRIGHT_DATABASE``    SQLite in that        address of the database, as SQLAlchemy writes it
                            folder
==========================  ====================  ===============================================================

The default listens to this machine only. Listening to others takes a host that somebody wrote down, and a token; an
empty host, which a socket would read as "every interface", is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Self

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8000
SHORTEST_TOKEN = 16
IN_MEMORY = "sqlite://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the server listens, who may use it, and where it keeps things.

    Parameters
    ----------
    token
        What clients have to show; empty if nothing.
    database_url
        The database; by default one in memory, for tests.
    data
        Folder for what is made again if it is lost; nothing is kept there without one.

    Raises
    ------
    ValueError
        If the host is no address, the port is no port, or a token is missing or short; the message says what to write
        instead.

    Examples
    --------
    >>> Settings().is_local
    True
    >>> Settings(host="0.0.0.0", token="0123456789abcdef").is_local
    False
    """

    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    token: str = field(default="", repr=False)
    database_url: str = field(default=IN_MEMORY, repr=False)
    data: Path | None = None

    def __post_init__(self) -> None:
        if self.host != "localhost":
            try:
                ip_address(self.host)
            except ValueError:
                raise ValueError(
                    f'host "{self.host}" is no IP address. Write {LOOPBACK} to serve this machine,'
                    " or 0.0.0.0 to serve every network that it is on."
                ) from None
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is out of range. Write a number from 0 to 65535.")
        if not self.is_local and not self.token:
            raise ValueError(
                f"{self.host} may be reachable from other machines, so a token is required. Set SHARDWRIGHT_TOKEN to"
                " a secret, e.g. the output of: openssl rand -hex 16"
            )
        if self.token and (len(self.token) < SHORTEST_TOKEN or not self.token.isalnum() or not self.token.isascii()):
            raise ValueError(
                f"the token needs at least {SHORTEST_TOKEN} letters and digits, and nothing else. Take e.g. the output"
                " of: openssl rand -hex 16"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or ip_address(self.host).is_loopback

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        *,
        host: str | None = None,
        port: int | None = None,
        token: str | None = None,
    ) -> Self:
        """Read the variables above; a given argument goes before its variable."""
        if host is None:
            host = environment.get("SHARDWRIGHT_HOST", LOOPBACK)
        if port is None:
            text = environment.get("SHARDWRIGHT_PORT", str(DEFAULT_PORT))
            if not (text.isascii() and text.isdecimal() and len(text) <= 5):
                raise ValueError(f'SHARDWRIGHT_PORT is "{text[:20]}". Write a number from 0 to 65535.')
            port = int(text)
        if token is None:
            token = environment.get("SHARDWRIGHT_TOKEN", "")
        data = _data_folder(environment)
        database = environment.get("SHARDWRIGHT_DATABASE") or f"sqlite:///{data / 'plans.db'}"
        return cls(host=host, port=port, token=token, database_url=database, data=data)


def _data_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that the variables name, or the one that the XDG base directories give."""
    if named := environment.get("SHARDWRIGHT_DATA"):
        return Path(named)
    base = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "shardwright"
