"""The command: what it says, and what it refuses before it listens."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

pytest.importorskip("fastapi", reason="the server is not installed")

from serve.running import picture, save_tiny
from vitrail.cli.serve import Options, command, model_name
from vitrail.errors import ConfigError, MissingExtra


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "my model.safetensors")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_answers_and_stops(model, stop):
    words = [sys.executable, "-m", "vitrail.cli.main", "serve", str(model), "--port", "0", "--log", "json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "VITRAIL_TOKEN": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, text=True, env=environment, **pipes) as process:
        said = ""
        while "Ctrl-C" not in said:
            said += (line := process.stdout.readline())
            assert line, process.stderr.read()
        url = re.search(r"page +(http://localhost:\d+)/", said)[1]
        assert "serving my-model" in said
        assert httpx.post(f"{url}/v1/predict", content=picture()).json()["model"] == "my-model"
        process.send_signal(stop)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert '"path": "/v1/predict", "status": 200' in log


def test_other_machines_are_not_let_in_by_accident(model, monkeypatch):
    monkeypatch.delenv("VITRAIL_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="VITRAIL_TOKEN"):
        command(str(model), options=Options(host="0.0.0.0"))


def test_a_port_that_is_taken_is_said_in_one_line(model):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="another --port"):
        command(str(model), options=Options(port=taken.getsockname()[1]))


def test_without_the_extra_the_remedy_is_named(model, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("vitrail.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(MissingExtra, match=r'pip install "vitrail\[serve\]"'):
        command(str(model))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("runs/pets", "pets"),
        ("runs/pets/model.safetensors", "pets"),
        ("cats & dogs.safetensors", "cats-dogs"),
        ("hf-hub:owner/name", "name"),
        ("...", "model"),
    ],
)
def test_a_model_is_called_by_its_file_or_run(model, name):
    assert model_name(model) == name
