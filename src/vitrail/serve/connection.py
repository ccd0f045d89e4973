"""The socket side: a request must arrive in time, an answer must be read in time, leaving is announced first.

uvicorn itself waits without end for the rest of a request that was begun.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from vitrail.serve.door import close
from vitrail.serve.guard import LARGEST_HEADERS
from vitrail.serve.limits import FULL, Gate
from vitrail.serve.refusal import plain_length, written
from vitrail.serve.watch import LOG

LAST_WORDS = 1.0  # seconds for a last answer to leave, before the connection is cut
LAST_GUESTS = 1.0  # seconds for whoever is connected already to ask, before the server leaves
CRUMB = 256  # bytes; a piece of a request that is smaller costs more to read than it brings
CRUMBS_FOR = 0.05  # seconds of crumbs alone, after which they are left to gather
GATHER = (0.2, 0.4)  # seconds; drawn, so that many such connections are not read in the same moment
TICK = 0.05
LONGEST_LEAVE = 60.0


class Clock:
    """Rings once after so many seconds, unless it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """A clock that runs already runs on."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._ring)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Connection(H11Protocol):
    """A connection with clocks: one from the first byte of a request to its last, one while answers are not read."""

    def __init__(self, gate: Gate, **parts: Any) -> None:
        super().__init__(**parts)
        self.gate = gate
        self.receipt = Clock(self.loop, gate.settings.receipt_seconds, self.too_slow)
        self.unread = Clock(self.loop, gate.settings.receipt_seconds, self.cut)
        self.unheard = 0  # bytes still to come of a request that was refused at its head
        self.answered = False  # whether this connection ever had an answer
        self.crumbs_since: float | None = None  # when the first of nothing but crumbs came

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only for sockets that say they are TCP; without it, an answer in two pieces waits 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self.gate.settings.max_connections:
            self.leave(503, "too many connections; ask again later")
        else:
            self.receipt.start()

    def data_received(self, data: bytes) -> None:
        if self.unheard or self.refuse_at_head(data):
            if rest := self.forget(data):
                self.data_received(rest)
            return
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.receipt.start()
            self.let_crumbs_gather(len(data))
        else:
            self.receipt.stop()
            self.crumbs_since = None

    def let_crumbs_gather(self, size: int) -> None:
        """Hundreds that drip byte by byte would hold up the event loop, and with it everybody else."""
        now = self.loop.time()
        if size >= CRUMB:
            self.crumbs_since = None
        elif self.crumbs_since is None:
            self.crumbs_since = now
        elif now - self.crumbs_since > CRUMBS_FOR and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(random.uniform(*GATHER), self.read_on)

    def read_on(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def refuse_at_head(self, data: bytes) -> bool:
        """Whether the server is full and has said so, before anything of the request was parsed."""
        if not self.gate.full or self.gate.draining or not self.between_requests:
            return False
        length = plain_length(data, self.gate.settings.max_body)
        if length is None:
            return False
        self._unset_keepalive_if_required()
        self.transport.write(written(503, FULL, self.gate.retry_after, close=False))
        self.gate.note_refusal()
        self.unheard = length
        return True

    @property
    def between_requests(self) -> bool:
        return self.conn.our_state is self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    @property
    def awaited(self) -> bool:
        """Whether a request has begun to arrive, or a first one is still to come."""
        return self.conn.their_state is h11.IDLE and (not self.answered or bool(self.conn.trailing_data[0]))

    def forget(self, data: bytes) -> bytes:
        """What follows the end of the refused request."""
        rest = data[self.unheard :]
        self.unheard = max(0, self.unheard - len(data))
        if self.unheard:
            self.receipt.start()
        else:
            self.receipt.stop()
            self.on_response_complete()
        return rest

    def on_response_complete(self) -> None:
        self.answered = True
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # a pipelined request that has begun
            self.receipt.start()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self.receipt.stop()
        self.unread.stop()
        super().connection_lost(exc)

    def too_slow(self) -> None:
        self.leave(408, "the request took too long to arrive")

    def shutdown(self) -> None:
        """The server leaves. Whoever is about to ask gets an answer too."""
        if self.awaited:
            self.leave(503, "the server is leaving; ask again later")
        else:
            super().shutdown()

    def leave(self, status: int, what: str) -> None:
        """Say why, where nothing else was said, and cut."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.unheard:
            self.transport.write(written(status, what, 1, close=True))
        self.transport.close()
        self.loop.call_later(LAST_WORDS, self.cut)

    def cut(self) -> None:
        self.transport.abort()


class Server(uvicorn.Server):
    """Leaves in order: first not ready, then no new connections, then everything accepted is answered.

    A second signal skips the first step; a third, if Ctrl-C, waits for nothing. `started_at` is told the port.
    """

    def __init__(self, app: ASGIApp, gate: Gate, started_at: Callable[[int], None]) -> None:
        chosen = gate.settings
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(Connection, gate)),
            loop="asyncio",
            ws="none",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=cast(int, chosen.idle_seconds),
            timeout_graceful_shutdown=cast(int, LONGEST_LEAVE),
            h11_max_incomplete_event_size=LARGEST_HEADERS,
        )
        super().__init__(config)
        self.gate, self.started_at = gate, started_at
        self.leave_at: float | None = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.started_at(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.leave_at is None:
            self.gate.draining = True
            self.leave_at = time.monotonic() + self.gate.settings.drain_seconds
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self.leave_at is not None and time.monotonic() >= self.leave_at:
            self.should_exit = True
        if counter % 10 == 0 and (refused := self.gate.take_refusals()):
            LOG.warning("full: %d requests were refused in a second", refused)
        return await super().on_tick(counter)

    @property
    def awaits_anyone(self) -> bool:
        return any(cast(Connection, each).awaited for each in self.server_state.connections)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in sockets or ():
            close(listener)
        end = time.monotonic() + LAST_GUESTS
        await asyncio.sleep(TICK)  # in which the event loop takes what the queue holds
        while self.awaits_anyone and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(TICK)
        await super().shutdown(sockets)
