"""Settings of the server: the one module that reads environment variables.

=====================  ===========  ===================================================
variable               default      meaning
=====================  ===========  ===================================================
``SHARDWRIGHT_HOST``   127.0.0.1    IP address (or ``localhost``) to listen on
``SHARDWRIGHT_PORT``   8000         port to listen on; 0 lets the system choose
=====================  ===========  ===================================================

The default listens to this machine only. Listening to others takes a host that somebody wrote down;
an empty one, which a socket would read as "every interface", is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the server listens.

    Raises
    ------
    ValueError
        If the host is no address or the port is no port; the message says what to write instead.

    Examples
    --------
    >>> Settings().is_local
    True
    >>> Settings(host="0.0.0.0").is_local
    False
    """

    host: str = LOOPBACK
    port: int = DEFAULT_PORT

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

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or ip_address(self.host).is_loopback

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, host: str | None = None, port: int | None = None
    ) -> Self:
        """Read the variables above; a given ``host`` or ``port`` goes before them."""
        if host is None:
            host = environment.get("SHARDWRIGHT_HOST", LOOPBACK)
        if port is None:
            text = environment.get("SHARDWRIGHT_PORT", str(DEFAULT_PORT))
            if not text.isdecimal():
                raise ValueError(f'SHARDWRIGHT_PORT is "{text}". Write a number from 0 to 65535.')
            port = int(text)
        return cls(host=host, port=port)
