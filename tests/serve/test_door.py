"""The listening socket: a taken port is said; closed, it keeps who stands in its queue and lets nobody else in."""

from __future__ import annotations

import select
import socket
import sys

import pytest

from vitrail.errors import ConfigError
from vitrail.serve.door import close, listen


def test_a_taken_port_is_said_in_one_line():
    with listen("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match="another --port"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="the packet filter is Linux's")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_closed_door_keeps_the_queue_and_lets_the_next_server_have_the_rest(host):
    with listen(host, 0) as listener, socket.socket(listener.family) as late:
        address = listener.getsockname()
        early = [socket.create_connection(address[:2]) for _ in range(5)]
        close(listener)
        late.setblocking(False)
        late.connect_ex(address)
        assert select.select([], [late], [], 0.2)[1] == []
        for guest in early:
            answering, _ = listener.accept()
            answering.sendall(b"welcome")
            assert guest.recv(10) == b"welcome"
            answering.close()
            guest.close()
        listener.close()
        with listen(host, address[1]) as following:
            following.settimeout(30)
            following.accept()[0].close()
        assert select.select([], [late], [], 30)[1] == [late]
