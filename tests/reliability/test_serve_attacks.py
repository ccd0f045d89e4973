"""S3: attack probes. All refused, none answered with a path or traceback, no connection out, and the server lives."""

from __future__ import annotations

import re
import socket

import pytest

from reliability.serve_attacks import ATTACKS, PICTURES, TOKEN, http, predict
from serve.running import Running, picture, save_tiny, status
from vitrail import load

LEAKS = re.compile(rb"Traceback|File \"|site-packages|\.py\b|/(?:root|home|tmp|usr|work|etc)/|0x[0-9a-f]{6}")
pytestmark = pytest.mark.xdist_group("attacked server")  # one server meets all of them
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def canary():
    """Something on this machine that a tricked server could be made to ask."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        yield listener


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny.safetensors")


@pytest.fixture(scope="module")
def server(model):
    with Running(model, token=TOKEN, max_body=2_000_000, receipt_seconds=1.0) as running:
        yield running


def check_refused(answer: bytes, name: str) -> None:
    assert 400 <= status(answer) < 500, (name, answer[:300])
    assert not LEAKS.search(answer), (name, answer)
    assert b"access-control-allow" not in answer.lower()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_probe_is_refused(server, canary, name):
    data = ATTACKS[name].replace(b":%d/", b":%d/" % canary.getsockname()[1])
    check_refused(server.send(data), name)


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_refused(server, name):
    check_refused(server.send(predict(PICTURES[name]())), name)


def test_and_after_all_that_the_server_answers_rightly(server, canary, model):
    with pytest.raises(BlockingIOError):
        canary.accept()
    assert len(ATTACKS) + len(PICTURES) >= 100
    assert status(server.send(http())) == 200
    answer = server.client.post("/v1/predict", content=picture(8), headers=BEARER).json()["predictions"][0]
    assert answer["label"] == load(model).predict(picture(8)).label
    assert server.stop() == 0
    assert '"traceback"' not in server.log
