"""Refused at the head: only what every parser reads alike, and the connection goes on as if nothing had been."""

from __future__ import annotations

import json

import h11
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serve.load import request
from vitrail.serve.refusal import plain_length, written
from vitrail.serve.watch import HEADERS

MOST = 1000
HEAD = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"


def parsed(data: bytes) -> int | None:
    """The length of the one whole POST in `data` as h11 reads it; None for anything else."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    try:
        events = []
        while not isinstance(event := connection.next_event(), type) and len(events) < 20:
            events.append(event)
    except h11.RemoteProtocolError:
        return None
    whole = events and events[0].method == b"POST" and isinstance(events[-1], h11.EndOfMessage)
    return len(data) - len(connection.trailing_data[0]) if whole else None


NAMES = st.sampled_from(("Content-Length", "content-length", "Host", "X", "Transfer-Encoding", "Expect", "Connection"))
VALUES = st.sampled_from(
    ("0", "3", " 3", "03", "+3", "3, 3", "-1", "chunked", "close", "keep-alive", "a:b", "\u00e9", "")
)
LINES = st.tuples(NAMES, st.sampled_from((":", ": ", " :", "")), VALUES).map("".join)
ENDS = st.sampled_from(("\r\n", "\n"))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(LINES, ENDS).map("".join), max_size=5), st.sampled_from((b"", b"abc", b"abcd")))
@example(["Host: a\r\n", "Content-Length: 3\r\n", "Content-Length: 3\r\n"], b"abc")
@example(["Host: a\r\n", "Content-Length: 3\r\n"], b"abc")
def test_what_is_taken_for_a_whole_request_is_one_for_the_parser_too(lines, body):
    data = b"POST / HTTP/1.1\r\n" + "".join(lines).encode("latin-1") + b"\r\n" + body
    length = plain_length(data, MOST)
    if length == len(data) and "host" in data.decode("latin-1").lower():  # without a Host, h11 says 400; we, 503
        assert parsed(data) in (length, None)
        assert b"chunked" not in data
        assert b"close" not in data


def test_a_plain_request_is_known_by_its_head_alone():
    whole = request(b"x" * 500)
    assert plain_length(whole, MOST) == len(whole)
    assert plain_length(whole[:-400], MOST) == len(whole)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD,
        HEAD + b"\r\n",
        HEAD.replace(b"POST", b"GET") + b"Content-Length: 0\r\n\r\n",
        HEAD.replace(b"1.1", b"1.0") + b"Content-Length: 0\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Content-Length: 3\r\ncontent-length: 3\r\n\r\nabc",
        HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc",
        HEAD + b"Content-Length: 3\r\n folded\r\n\r\nabc",
        HEAD + b"Content-Length: 3\r\n\r\nabc" + HEAD,
        HEAD + b"Content-Length: 1001\r\n\r\n",
        HEAD + b"Content-Length: \xb2\r\n\r\n",
    ],
    ids=repr,
)
def test_everything_else_is_left_to_the_parser(data):
    assert plain_length(data, MOST) is None


def test_a_refusal_has_the_headers_of_every_answer():
    head, _, body = written(503, "full", 7, close=False).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 503 Service Unavailable"
    assert {"Retry-After: 7", *(f"{name}: {value}" for name, value in HEADERS.items())} <= set(lines)
    assert json.loads(body) == {"error": "full"}
    assert "Connection: close" in written(408, "slow", 1, close=True).decode()
