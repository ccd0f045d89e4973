"""How much at once: requests inside, bytes of a body, bytes of all bodies.

A body is read whole before its request counts as waiting, so that slow senders take nobody's place. Whether there is a
place is asked before reading, so that a full server says so at once and reads nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitrail.serve.metrics import Metrics
from vitrail.serve.problems import Refused
from vitrail.serve.settings import MEGABYTE, Settings

FULL = "the server is full; ask again later"
LINGER_SECONDS = 2.0
FASTEST = 1e-6  # seconds a picture
SMOOTHING = 0.1  # share of the newest batch in the pace


class Gate:
    """What is inside now, in pictures. `draining`: no longer ready, but what comes is still answered."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.inside = self.held = 0
        self.seconds_each = 0.0  # of the engine, a picture
        self.draining = False
        self._refusals, self._refused = metrics.requests.labels("other", "503"), 0
        metrics.waiting.set_function(lambda: self.inside)
        metrics.held.set_function(lambda: self.held)
        metrics.ready.set_function(lambda: not self.draining)

    @property
    def most(self) -> int:
        """Pictures that may be inside: those who are let in are answered in half the time there is, or sooner."""
        in_time = self.settings.answer_seconds / 2 / max(self.seconds_each, FASTEST)
        return max(1, min(self.settings.max_queue, int(in_time)))

    def note_pace(self, seconds_each: float) -> None:
        """The machine may be busier now than when the engine was measured at the start, or less so."""
        self.seconds_each += SMOOTHING * (seconds_each - self.seconds_each)

    @property
    def full(self) -> bool:
        return self.inside >= self.most

    @property
    def retry_after(self) -> int:
        """Whole seconds until about all who wait now are answered."""
        return min(60, max(1, math.ceil(self.inside * self.seconds_each)))

    def note_refusal(self) -> None:
        """Of a request that came no further than the connection."""
        self._refusals.inc()
        self._refused += 1

    def take_refusals(self) -> int:
        """How many since the last time; one line of log tells of all."""
        taken, self._refused = self._refused, 0
        return taken

    def check(self, count: int = 1) -> None:
        if self.inside + count > self.most:
            raise Refused(503, FULL, retry_after=self.retry_after)

    @contextmanager
    def places(self, count: int) -> Iterator[None]:
        """For a request, which is one picture; more are taken when it is known how many it brought."""
        self.check(count)
        self.inside += count
        try:
            yield
        finally:
            self.inside -= count

    def hold(self, count: int) -> None:
        if self.held + count > self.settings.max_held:
            raise Refused(503, "the server holds too much already; ask again later", retry_after=self.retry_after)
        self.held += count


class Limits:
    """Requests with a body: counted as it comes, held whole, and given to the application when there is a place."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            self.check_headers(Headers(scope=scope))
            self.gate.check()
            await self.receive_into(body, receive)
            with self.gate.places(1):
                async with asyncio.timeout(self.gate.settings.answer_seconds):
                    await self.app(scope, replay(body, receive), send)
        except TimeoutError:
            raise Refused(503, "the answer took too long; ask again later", retry_after=self.gate.retry_after) from None
        finally:
            self.gate.held -= len(body)

    def check_headers(self, headers: Headers) -> None:
        if headers.get("content-encoding", "identity") != "identity":
            raise Refused(415, "compressed bodies are not taken; send the picture as it is")
        declared = headers.get("content-length", "0")
        if len(declared) > 18 or int(declared) > self.gate.settings.max_body:
            raise self.too_large()

    async def receive_into(self, body: bytearray, receive: Receive) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            piece = message.get("body", b"")
            if len(body) + len(piece) > self.gate.settings.max_body:
                raise self.too_large()
            self.gate.hold(len(piece))
            body += piece
            more = message.get("more_body", False)

    def too_large(self) -> Refused:
        return Refused(413, f"more than {self.gate.settings.max_body / MEGABYTE:g} MB; send fewer or smaller pictures")


def replay(body: bytearray, receive: Receive) -> Receive:
    """A `receive` that gives the whole body first."""
    messages = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

    async def replayed() -> Message:
        return next(messages, None) or await receive()

    return replayed


async def linger(receive: Receive) -> None:
    """Read on after a refusal, for a while, and forget: a client that is still sending could not hear it otherwise."""
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass
