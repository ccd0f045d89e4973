"""The socket side: answers leave at once, a taken port is said, a server that leaves says so first."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import pytest
import uvicorn
from uvicorn.server import ServerState

from serve.conftest import asking
from serve.running import picture
from vitrail.errors import ConfigError
from vitrail.serve.connection import Connection
from vitrail.serve.door import listen
from vitrail.serve.limits import Gate
from vitrail.serve.metrics import Metrics
from vitrail.serve.settings import Settings


async def nothing(_scope, _receive, _send):
    raise AssertionError


def test_answers_do_not_wait_for_more_to_send():
    async def connect() -> int:
        state, loop = ServerState(), asyncio.get_running_loop()
        config = uvicorn.Config(nothing, http="h11", ws="none", lifespan="off", log_config=None)
        made = partial(
            Connection, Gate(Settings(), Metrics()), config=config, server_state=state, app_state={}, _loop=loop
        )
        with listen("127.0.0.1", 0) as listener:
            server = await loop.create_server(made, sock=listener)
            _, writer = await asyncio.open_connection(*listener.getsockname())
            while not state.connections:
                await asyncio.sleep(0)
            (connection,) = state.connections
            found = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            connection.transport.abort()
            server.close()
            await asyncio.sleep(0)
        return found

    assert asyncio.run(connect()) == 1


def test_a_taken_port_is_said_in_one_line():
    with listen("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match="another --port"):
        listen("127.0.0.1", taken.getsockname()[1])


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
