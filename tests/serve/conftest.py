"""A tiny model, asked over HTTP: through the application itself, or through a server in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason='the server is not installed: pip install "vitrail[serve]"')

from starlette.testclient import TestClient

from serve.running import Running, save_tiny
from vitrail import Predictor, load
from vitrail.serve.app import create_app
from vitrail.serve.settings import Settings


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "tiny.safetensors")


@pytest.fixture(scope="session")
def predictor(tiny: Path) -> Predictor:
    return load(tiny)


@contextmanager
def asking(predictor: Predictor, **settings: Any) -> Iterator[TestClient]:
    """A client of the application, in this process. `service` is what the application is made around."""
    app, service = create_app(predictor, Settings(**{"name": "tiny", **settings}))
    with TestClient(app, base_url="http://localhost") as client:
        client.service = service
        yield client


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[TestClient]:
    with asking(predictor) as client:
        yield client


@pytest.fixture(scope="module")
def running(tiny: Path) -> Iterator[Running]:
    with Running(tiny) as server:
        yield server
