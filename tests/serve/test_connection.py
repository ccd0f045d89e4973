"""The socket side: answers leave at once, a taken port is said, a server that leaves says so first."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest
import uvicorn
from uvicorn.server import ServerState

from serve.conftest import asking
from serve.load import request
from serve.running import Running, complete, picture, status
from vitrail.serve.connection import Connection
from vitrail.serve.door import listen
from vitrail.serve.limits import Gate
from vitrail.serve.metrics import Metrics
from vitrail.serve.settings import Settings


async def hello(_scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def listening(gate):
    """Where connections are taken, and the set of them."""
    state, loop = ServerState(), asyncio.get_running_loop()
    config = uvicorn.Config(hello, http="h11", ws="none", lifespan="off", log_config=None)
    made = partial(Connection, gate, config=config, server_state=state, app_state={}, _loop=loop)
    with listen("127.0.0.1", 0) as listener:
        server = await loop.create_server(made, sock=listener)
        yield listener.getsockname(), state.connections
        for connection in state.connections:
            connection.transport.abort()
        server.close()
        await asyncio.sleep(0)


@pytest.fixture
def gate():
    return Gate(Settings(), Metrics())


def test_answers_do_not_wait_for_more_to_send(gate):
    async def connect() -> int:
        async with listening(gate) as (address, connections):
            _, writer = await asyncio.open_connection(*address)
            while not connections:
                await asyncio.sleep(0)
            (connection,) = connections
            found = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
        return found

    assert asyncio.run(connect()) == 1


async def answer_to(reader: asyncio.StreamReader) -> int:
    answer = b""
    while not complete(answer):
        piece = await reader.read(4096)
        assert piece
        answer += piece
    return status(answer)


def test_a_full_server_refuses_at_the_head_and_hears_the_next_request(gate):
    async def converse() -> list[int]:
        async with listening(gate) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            large, found = request(b"x" * 200_000), list[int]()
            gate.inside = gate.most
            writer.write(large[:1000])
            found.append(await answer_to(reader))
            writer.write(large[1000:])
            gate.inside = 0
            writer.write(large)
            found.append(await answer_to(reader))
            gate.inside = gate.most
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found.append(await answer_to(reader))
            writer.close()
        return found

    assert asyncio.run(converse()) == [503, 200, 200]
    assert (gate.take_refusals(), gate.take_refusals()) == (1, 0)
    assert 'vitrail_requests_total{route="other",status="503"} 1.0' in gate.metrics.text().decode()


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
DRIPPED = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    POST + b"Content-Length: 9\r\n\r\nabcdefghi",
    POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
)


@pytest.mark.parametrize("dripped", DRIPPED)
def test_a_request_in_crumbs_is_read_a_few_times_a_second_and_answered(gate, monkeypatch, dripped):
    reads, read = list[int](), Connection.data_received

    def counted(self, data):
        reads.append(len(data))
        read(self, data)

    monkeypatch.setattr(Connection, "data_received", counted)

    async def drip() -> list[int]:
        async with listening(gate) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for each in dripped:
                writer.write(bytes([each]))
                await asyncio.sleep(0.02)
            found = [await answer_to(reader)]
            reads.append(0)
            writer.write(dripped)  # the next one comes whole, and at once
            found.append(await answer_to(reader))
            writer.close()
        return found

    assert asyncio.run(drip()) == [200, 200]
    assert sum(reads) == 2 * len(dripped)
    assert reads.index(0) < len(dripped) / 2
    assert reads[-1] == len(dripped)


def test_a_refused_request_that_never_ends_is_cut():
    async def dawdle() -> bytes:
        gate = Gate(Settings(receipt_seconds=0.2), Metrics())
        gate.inside = gate.most
        async with listening(gate) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request(b"x" * 5000)[:-1])
            answer = await reader.read()
            writer.close()
        return answer

    answer = asyncio.run(dawdle())
    assert answer.count(b"HTTP/1.1") == 1
    assert status(answer) == 503


def test_whoever_is_connected_when_the_server_leaves_gets_an_answer(tiny):
    with Running(tiny, drain_seconds=0.0) as server:
        silent, begun = (socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(2))
        begun.sendall(b"GET /live HT")
        assert server.client.get("/live").status_code == 200
        assert server.stop() == 0
        for guest in (silent, begun):
            answer = b"".join(iter(partial(guest.recv, 4096), b""))
            assert status(answer) == 503
            assert b"Retry-After: 1" in answer
            guest.close()


def test_a_server_that_leaves_is_alive_not_ready_and_still_answers(predictor):
    with asking(predictor) as client:
        assert client.get("/ready").status_code == client.get("/v2/health/ready").status_code == 200
        client.service.gate.draining = True
        for path in ("/ready", "/v2/health/ready", "/v2/models/tiny/ready"):
            assert client.get(path).status_code == 503, path
        assert client.get("/live").status_code == 200
        answer = client.post("/v1/predict", content=picture())
        assert answer.status_code == 200
        assert answer.headers["Connection"] == "close"
        assert "vitrail_ready 0.0" in client.get("/metrics").text
