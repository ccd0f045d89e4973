"""`hf-hub:owner/name`, against a hub on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from oracles import randomise
from vitrail import Artefact, convert, create_model
from weights.small_hub import serve

pytest.importorskip("huggingface_hub", reason='pip install "vitrail[hub]"')


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    model = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))
    convert(Artefact(model, classes=("ant", "bee", "cat")), folder / "hf", to="huggingface")
    convert(Artefact(model, classes=("ant", "bee", "cat")), folder / "timm", to="timm")
    (folder / "ours").mkdir()
    Artefact(model, classes=("ant", "bee", "cat")).save(folder / "ours" / "model.safetensors")
    (folder / "hf" / "README.md").write_text("not needed")
    (folder / "hf" / "training.pkl").write_bytes(b"\x80\x04never fetched")
    with serve({f"owner/{name}": folder / name for name in ("hf", "timm", "ours")}) as (address, asked):
        yield address, asked


def inspect(hub, source, tmp_path):
    """As a user would: the command in a process of its own, with the hub's address and cache in the environment."""
    home = {"HF_ENDPOINT": hub[0], "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    words = [sys.executable, "-m", "vitrail.cli.main", "inspect", source, "--json"]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **home}, check=False)


@pytest.mark.parametrize("name", ["hf", "timm", "ours"])
def test_a_model_by_its_hub_name(hub, name, tmp_path):
    found = inspect(hub, f"hf-hub:owner/{name}", tmp_path)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["classes"] == ["ant", "bee", "cat"]
    assert not any("training.pkl" in path or "README" in path for path in hub[1])


def test_a_name_that_is_not_there(hub, tmp_path):
    found = inspect(hub, "hf-hub:owner/nothing", tmp_path)
    assert found.returncode == 3
    assert found.stderr.startswith("vitrail: hf-hub:owner/nothing: cannot be fetched: ")
    assert found.stderr.count("\n") == 1


def test_a_name_that_is_no_name(hub, tmp_path):
    found = inspect(hub, "hf-hub:nothing", tmp_path)
    assert found.returncode == 3
    assert "write hf-hub:owner/name" in found.stderr
