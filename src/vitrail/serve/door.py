"""The socket that connections come in by: opened with a clear word, closed without turning away who stands there."""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from contextlib import suppress

from vitrail.errors import ConfigError

BACKLOG = 1024
# A program of the kernel's packet filter: drop what opens a connection (the flag SYN), keep all else
NO_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 2), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
SO_ATTACH_FILTER = 26


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; a port that is taken is said in one line."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port} ({error.strerror or error})", fix="give another --port, or 0"
        ) from None


def close(listener: socket.socket) -> None:
    """No new connection begins, and those in the queue stay. Closing the socket would reset them.

    Who knocks now is not refused: their kernel knocks again in a second, when the next server may listen.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in NO_SYN))
        with suppress(OSError):  # a kernel without the filter: what arrives in the last moment is reset
            listener.setsockopt(
                socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(NO_SYN), ctypes.addressof(program))
            )
