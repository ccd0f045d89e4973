"""Many requests from one thread: plain sockets and bodies made beforehand, so that the load is the server's alone."""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from serve.running import complete, picture, status

KINDS = 10  # of ten requests seven are good
GOOD = {seed: picture(seed, "JPEG", (120, 160)) for seed in range(7)}
BAD = {7: b"not a picture", 8: picture(8)[:300], 9: b""}


class Asked(NamedTuple):
    kind: int
    status: int
    seconds: float
    retry_after: int | None
    label: str | None


def request(body: bytes) -> bytes:
    head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


REQUESTS = {kind: request(body) for kind, body in (GOOD | BAD).items()}


class Caller:
    """A connection that is kept, with one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: int) -> None:
        self.kind, self.answer, self.since = kind, b"", time.perf_counter()
        self.socket.sendall(REQUESTS[kind])

    def heard(self) -> Asked | None:
        """What came; None while there is more to come."""
        piece = self.socket.recv(65536)
        self.answer += piece
        if piece and not complete(self.answer):
            return None
        head, _, body = self.answer.partition(b"\r\n\r\n")
        found, wait = status(self.answer), re.search(rb"(?i)retry-after: (\d+)", head)
        label = json.loads(body)["predictions"][0]["label"] if found == 200 else None
        return Asked(self.kind, found, time.perf_counter() - self.since, wait and int(wait[1]), label)


class Load:
    """`rate`: requests begin at even times whatever becomes of them. Without: `clients` ask, one after the other."""

    def __init__(self, port: int, kinds: Sequence[int], *, rate: float = 0.0, clients: int = 0) -> None:
        self.port, self.kinds, self.rate, self.clients = port, kinds, rate, clients
        self.selector, self.idle, self.sent, self.under_way = selectors.DefaultSelector(), list[Caller](), 0, 0

    def run(self) -> tuple[list[Asked], float]:
        """All that was asked, and the seconds it took."""
        start = time.perf_counter()
        asked: list[Asked] = []
        while len(asked) < len(self.kinds):
            wait = self.send_due(time.perf_counter() - start)
            asked.extend(self.answers(wait))
        seconds = time.perf_counter() - start
        for caller in self.idle:
            caller.socket.close()
        self.selector.close()
        return asked, seconds

    def send_due(self, now: float) -> float | None:
        """Send what is due now; seconds until more is, or None if an answer must come first."""
        while self.sent < len(self.kinds):
            ahead = self.sent / self.rate - now if self.rate else 0.0
            if ahead > 0 or (self.clients and self.under_way >= self.clients):
                return ahead or None
            caller = self.idle.pop() if self.idle else Caller(self.port)
            caller.send(self.kinds[self.sent])
            self.selector.register(caller.socket, selectors.EVENT_READ, caller)
            self.sent += 1
            self.under_way += 1
        return None

    def answers(self, wait: float | None) -> Iterator[Asked]:
        for key, _ in self.selector.select(wait):
            caller: Caller = key.data
            if (asked := caller.heard()) is not None:
                self.selector.unregister(caller.socket)
                self.idle.append(caller)
                self.under_way -= 1
                yield asked


def check_all(asked: Sequence[Asked], labels: dict[int, str]) -> list[Asked]:
    """Every answer is the right one, or a polite refusal; the refusals."""
    for each in asked:
        if each.status in (429, 503):
            assert each.retry_after is not None
            assert each.retry_after >= 1
        elif each.kind in GOOD:
            assert (each.status, each.label) == (200, labels[each.kind])
        else:
            assert each.status == 422
    return [each for each in asked if each.status in (429, 503)]
