"""Who may ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.conftest import asking
from serve.running import picture
from vitrail.serve.guard import OPEN, host_name

TOKEN = "correct horse battery"


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1", "[::1]:80", "LOCALHOST", "pics.example"])
def test_known_hosts_are_answered(predictor, host):
    with asking(predictor, allow_hosts=("pics.example",)) as client:
        assert client.get("/v1/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8000",
        "localhost@evil.example",
        "localhost/",
        "",
        "[::1",
        "localhost:99999",
        "localhost:x",
        "127.0.0.1.nip.io",
        "0x7f000001",
        "localhost evil",
    ],
)
def test_other_hosts_are_not(client, host):
    assert client.get("/v1/model", headers={"Host": host}).status_code == 421
    assert client.get("/live", headers={"Host": host}).status_code == 421


@given(st.text(max_size=30))
def test_a_host_is_a_name_or_nothing(text):
    name = host_name(text)
    assert name is None or not set("/@?#") & set(name)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
    ids=str,
)
def test_other_sites_cannot_use_a_visitors_browser(client, headers, status):
    assert client.post("/v1/predict", content=picture(), headers=headers).status_code == status


def test_a_preflight_is_not_granted(client):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/v1/predict", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_with_a_token_only_its_holders_are_answered(predictor):
    with asking(predictor, token=TOKEN) as client:
        for path in ("/v1/model", "/metrics", "/v2", "/v2/models/tiny", "/nowhere"):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        for sent in ("", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer é"):
            headers = {"Authorization": sent.encode("latin-1")}
            assert client.post("/v1/predict", content=picture(), headers=headers).status_code == 401, sent
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/predict", content=picture(), headers=headers).status_code == 200
        assert client.get("/v1/model", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


def test_what_is_open_tells_nothing_of_the_model(predictor):
    with asking(predictor, token=TOKEN) as client:
        for path in OPEN:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert "ant" not in answer.text.split('"')
            assert TOKEN not in answer.text
