"""What a server may use, and who may ask it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from vitrail.errors import ConfigError

MEGABYTE = 1_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Settings:
    """Sizes are in bytes, times in seconds."""

    name: str = "model"
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allow_hosts: tuple[str, ...] = ()
    public: bool = False  # other machines may ask without a token
    batching: bool = True  # pictures that wait together are answered together, where measured to pay
    max_queue: int = 64  # pictures that are being answered or wait for it
    max_pictures: int = 64  # of one request
    max_body: int = 32 * MEGABYTE
    max_held: int = 256 * MEGABYTE  # bodies of all requests together
    max_connections: int = 1000
    receipt_seconds: float = 14.0  # from the first byte of a request to its last
    answer_seconds: float = 30.0
    idle_seconds: float = 5.0  # between two requests of a connection
    drain_seconds: float = 1.0  # from 'not ready' to 'no new connections'

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"name={self.name!r} does not fit an address", fix="use letters, digits, '-', '_' and '.'"
            )
        if self.max_queue < 1:
            raise ConfigError(f"max_queue={self.max_queue} lets nobody in", fix="give at least 1")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port={self.port} is no port", fix="give 0 (any free one) to 65535")
        if self.token is not None and (len(self.token) < 8 or not self.token.isascii() or not self.token.isprintable()):
            raise ConfigError(
                "a token must have 8 or more plain characters", fix="make one with `openssl rand -hex 24`"
            )
        if not is_loopback(self.host) and self.token is None and not self.public:
            raise ConfigError(
                f"host={self.host} lets other machines ask, and there is no token",
                fix="set VITRAIL_TOKEN, or give --public to let everyone ask",
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
