"""S4: slow clients. Each is cut in time, in whatever part of a request it dawdles; honest ones do not notice."""

from __future__ import annotations

import select
import socket
import threading
import time

import numpy as np
import pytest

from serve.running import Running, picture, save_tiny, status

POST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
# What a slow client has sent when it begins to dawdle
BEGINNINGS = (
    b"",
    b"G",
    b"GET /v1/model HTTP/1.1\r\nHost: local",
    b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\nX-Slow: a",
    POST,
    POST + b"Content-Length: 100000\r\n\r\n" + b"x" * 1000,
    POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    POST + b"Content-Length: 999\r\n\r\n",
    b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n" + POST + b"Content-Length: 99999\r\n\r\nx",  # pipelined
)


def honest(server: Running, count: int) -> np.ndarray:
    """Seconds of requests, one after the other, all answered."""
    seconds = []
    for number in range(count):
        start = time.perf_counter()
        assert server.client.post("/v1/predict", content=picture(number % 7)).status_code == 200
        seconds.append(time.perf_counter() - start)
    return np.array(seconds)


class Slow(threading.Thread):
    """Many connections, a byte each a while, until the server closes them; how long each one lasted."""

    def __init__(self, port: int, count: int, most: float) -> None:
        super().__init__(daemon=True)
        self.most, self.lasted, self.answers = most, dict[int, float](), dict[int, bytes]()
        self.open = {number: socket.create_connection(("127.0.0.1", port)) for number in range(count)}
        self.since = {number: time.monotonic() for number in self.open}
        for number, connection in self.open.items():
            connection.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        self.start()

    def run(self) -> None:
        end = time.monotonic() + self.most
        while self.open and time.monotonic() < end:
            readable, _, _ = select.select(list(self.open.values()), [], [], 0.1)
            for number, connection in list(self.open.items()):
                if connection in readable and self.closed(number, connection):
                    self.lasted[number] = time.monotonic() - self.since[number]
                    self.open.pop(number).close()
            self.drip()

    def closed(self, number: int, connection: socket.socket) -> bool:
        try:
            data = connection.recv(4096)
        except ConnectionError:
            data = b""
        self.answers[number] = self.answers.get(number, b"") + data
        return not data

    def drip(self) -> None:
        """Always something, never enough."""
        for number, connection in self.open.items():
            if BEGINNINGS[number % len(BEGINNINGS)]:
                try:
                    connection.send(b"a")
                except (ConnectionError, BlockingIOError):
                    continue


def besiege(tmp_path, count: int, receipt: float, requests: int) -> tuple[Slow, np.ndarray, np.ndarray]:
    with Running(save_tiny(tmp_path / "tiny.safetensors"), receipt_seconds=receipt) as server:
        honest(server, 10)
        alone = honest(server, requests)
        slow = Slow(server.port, count, most=receipt + 30)
        besieged = honest(server, requests)
        slow.join()
        assert not slow.open
        assert honest(server, 3).size == 3
        assert server.stop() == 0
    assert len(slow.lasted) == count
    assert {status(answer) for answer in slow.answers.values()} <= {0, 200, 400, 408}
    return slow, alone, besieged


def test_slow_clients_are_cut(tmp_path):
    slow, _, _ = besiege(tmp_path, 36, receipt=1.5, requests=20)
    assert sum(status(answer) == 408 for answer in slow.answers.values()) >= 18


def wait_for(happened, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.05)
    return happened()


def test_too_many_connections_and_answers_that_nobody_reads(tmp_path):
    with Running(save_tiny(tmp_path / "tiny.safetensors"), receipt_seconds=1.0, max_connections=4) as server:
        before = server.files()
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        assert wait_for(lambda: server.files() == before + 4)
        refused = server.send(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(refused) == 503
        assert b"Retry-After" in refused
        assert wait_for(lambda: server.files() == before)  # those who said nothing are cut
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 900)
            assert wait_for(lambda: server.files() == before + 1)
            assert wait_for(lambda: server.files() == before)
        for connection in idle:
            connection.close()
        assert honest(server, 3).size == 3


@pytest.mark.full
def test_slow_clients_in_full(tmp_path, record_property):
    slow, alone, besieged = besiege(tmp_path, 500, receipt=14.0, requests=300)
    longest = max(slow.lasted.values())
    ratio = np.quantile(besieged, 0.99) / np.quantile(alone, 0.99)
    assert longest <= 15
    assert ratio <= 2
    record_property("figure", f"500 of 500 cut, the last after {longest:.1f} s; honest p99 {ratio:.2f} x")
