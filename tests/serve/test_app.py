"""The application as a whole: what it says of itself holds for anything it may be sent (S1)."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from importlib.resources import files

import pytest

from serve.conftest import asking
from serve.running import CLASSES, picture
from vitrail import Predictor
from vitrail.errors import ConfigError
from vitrail.serve.app import STATIC, create_app
from vitrail.serve.settings import Settings
from vitrail.serve.watch import HEADERS, Lines

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi import checks as openapi  # noqa: E402

CHECKS = [
    not_a_server_error,
    openapi.response_schema_conformance,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_headers_conformance,
]
FUZZ = settings(suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def described(predictor: Predictor):
    app, service = create_app(predictor, Settings(name="tiny", allow_hosts=("testserver",)))
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    service.close()


@pytest.mark.parametrize(("examples", "least"), [(12, 50), pytest.param(1500, 5000, marks=pytest.mark.full)])
def test_anything_sent_gets_a_described_answer(described, examples, least):
    """Fitting its description or breaking it: an answer that the description allows, and never a fault."""
    asked = 0
    for found in described.get_all_operations():
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(FUZZ, max_examples=examples)
            @given(case=found.ok().as_strategy(generation_mode=mode))
            def ask(case):
                nonlocal asked
                case.call_and_validate(checks=CHECKS)
                asked += 1

            with suppress(Unsatisfiable):  # a call without parameters cannot be asked wrongly
                ask()
    assert asked >= least


def test_every_answer_has_the_headers_that_protect_it(client):
    for path in ("/", "/docs", "/static/serve.js", "/v1/model", "/nowhere", "/metrics"):
        headers = client.get(path).headers
        for name, value in HEADERS.items():
            assert name == "Cache-Control" or headers[name] == value, path
        assert "access-control-allow-origin" not in headers


def test_all_files_of_the_page_are_served_and_nothing_else(client):
    packaged = {entry.name for entry in files("vitrail.serve.page").iterdir() if entry.name.endswith((".js", ".css"))}
    assert packaged <= set(STATIC)
    for name, (_, kind) in STATIC.items():
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
    for name in ("app.py", "..%2fapp.py", "%2e%2e/app.py", "serve.js%00"):
        assert client.get(f"/static/{name}").status_code == 404


def test_a_full_server_says_so_at_once_and_reads_nothing(predictor):
    with asking(predictor, max_queue=2) as client, client.service.gate.places(2):
        answer = client.post("/v1/predict", content=picture())
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert client.get("/v1/model").status_code == 200


def test_pictures_count_not_requests(predictor):
    files = [("file", ("a.png", picture()))] * 3
    with asking(predictor, max_queue=4) as client:
        assert client.post("/v1/predict", files=files).status_code == 200
        with client.service.gate.places(2):
            assert client.post("/v1/predict", files=files).status_code == 503
        assert client.service.gate.inside == client.service.gate.held == 0


def test_bodies_of_all_together_are_bounded(predictor):
    with asking(predictor, max_held=1000) as client:
        assert client.post("/v1/predict", content=b"x" * 1001).status_code == 503
        client.service.gate.hold(900)
        assert client.post("/v1/predict", content=b"x" * 200).status_code == 503
        assert client.service.gate.held == 900


def test_an_answer_that_takes_too_long_is_given_up(predictor):
    with asking(predictor, answer_seconds=0.0) as client:
        answer = client.post("/v1/predict", content=picture())
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers


class Broken:
    """An engine that works until it is told not to."""

    name, fails = "broken", False

    def __init__(self, engine):
        self.engine = engine

    def __call__(self, batch):
        if self.fails:
            raise RuntimeError("/secret/place")
        return self.engine(batch)


def test_a_fault_is_in_the_log_and_not_in_the_answer(predictor, caplog):
    engine = Broken(predictor.engine)
    with asking(Predictor(engine, predictor.decision, predictor.preprocessing, 3)) as client:
        client._transport.raise_server_exceptions = False
        engine.fails = True
        answer = client.post("/v1/predict", content=picture())
        assert answer.status_code == 500
        assert set(answer.json()) == {"error"}
        assert "secret" not in answer.text
        assert answer.headers["X-Request-Id"] in answer.text
        engine.fails = False
        assert client.post("/v1/predict", content=picture()).status_code == 200
    assert "/secret/place" in caplog.text


def test_a_line_of_the_log_cannot_be_forged():
    record = logging.LogRecord("vitrail.serve", logging.INFO, "", 0, "request", None, None)
    record.request = {"path": "/a\n2026 forged", "status": 404}
    assert "\n" not in Lines(as_json=False).format(record)
    assert json.loads(Lines(as_json=True).format(record))["path"] == "/a\n2026 forged"


def test_metrics_count_by_route_and_never_by_path(client):
    client.get("/made-up-1")
    client.get("/made-up-2")
    text = client.get("/metrics").text
    assert "made-up" not in text
    assert 'vitrail_requests_total{route="other",status="404"}' in text


def test_labels_are_data(client):
    assert CLASSES[2] in client.get("/v1/model").json()["classes"]
    assert client.get("/v1/model").headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_queue": 0},
        {"name": "a/b"},
        {"port": 70000},
        {"token": "short"},
        {"token": "line\nbreak"},
        {"host": "0.0.0.0"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ConfigError, match="; "):
        Settings(**wrong)


def test_other_machines_need_a_token_or_a_word():
    assert Settings(host="0.0.0.0", token="long enough").token
    assert Settings(host="0.0.0.0", public=True).public
    assert Settings(host="::1").host
