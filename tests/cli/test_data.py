"""`vitrail data` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.tiny_mnist import tiny_mnist, write_mnist
from vitrail.cli.data import command
from vitrail.data.catalog import CATALOG
from vitrail.data.download import Folder
from vitrail.errors import ConfigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, "tiny", tiny_mnist(Folder(write_mnist(tmp_path / "files"))))


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    command()
    out = capsys.readouterr().out
    assert all(name in out for name in CATALOG)
    assert "yes" not in out
    command(json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(CATALOG)
    assert not any(row["ready"] for row in rows)


def test_one_is_fetched_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command("tiny")
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "tiny: 8 train, 4 test; 3 classes",
        "a, b, c",
        str(tmp_path / "cache" / "data" / "tiny"),
    ]
    command("tiny", json=True)
    row = json.loads(capsys.readouterr().out)
    assert row["ready"]
    assert row["splits"] == {"train": 8, "test": 4}
    assert Path(row["folder"]).is_dir()


def test_an_unknown_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        command("cifar")
