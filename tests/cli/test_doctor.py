"""`vitrail doctor` as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from data.planting import save, scene, small_set
from oracles import randomise
from vitrail.cli.doctor import command
from vitrail.errors import ConfigError, FileError


def with_a_copy(root: Path) -> Path:
    small_set(root)
    shutil.copy(root / "train/ant/0.png", root / "test/ant/again.png")
    return root


def test_sound_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(small_set(tmp_path)), strict=True) == 0
    said = capsys.readouterr().out
    assert "32 pictures (24 train, 8 test), 2 classes" in said
    assert "Nothing wrong was found" in said
    assert "--model" in said


def test_a_fault_is_shown_with_names_and_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(with_a_copy(tmp_path))) == 0
    said = capsys.readouterr().out
    assert "error" in said
    assert "test/ant/again.png  =  train/ant/0.png" in said
    assert "keep one of each" in said


def test_strict_fails_with_findings(tmp_path: Path) -> None:
    assert command(str(with_a_copy(tmp_path)), strict=True, quick=True) == 1


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(with_a_copy(tmp_path)), json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [finding["kind"] for finding in found["findings"]] == ["copies-across-splits"]


def test_names_cannot_forge_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = small_set(tmp_path)
    (root / "train/ant/a\nerror\x1b[2J[bold].png").write_bytes(b"broken")
    command(str(root))
    said = capsys.readouterr().out
    assert "\x1b[2J" not in said
    assert r"a\nerror\x1b[2J[bold].png" in "".join(line.strip() for line in said.splitlines())


def test_a_set_that_training_refuses_is_examined_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = with_a_copy(tmp_path)
    (root / "train/empty").mkdir()
    assert command(str(root), strict=True) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "training would refuse this set" in said
    assert "empty" in said
    assert "again.png" in said


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        command(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="--threads"):
        command(str(small_set(tmp_path)), threads=0)


def test_the_page_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, page = with_a_copy(tmp_path / "data"), tmp_path / "page.html"
    command(str(root), html=page, quick=True)
    assert str(page) in capsys.readouterr().out
    assert "again.png" in page.read_text(encoding="utf-8")
    with pytest.raises(FileError, match="--overwrite"):
        command(str(root), html=page)
    command(str(root), html=page, overwrite=True, quick=True)


def test_wrong_labels_are_found_with_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vitrail.config import Preprocessing
    from vitrail.model import create_model
    from vitrail.weights.artefact import Artefact

    for index in range(40):
        for number, (name, colour) in enumerate((("red", (250, 30, 30)), ("blue", (30, 30, 250)))):
            glass = Image.blend(scene(index + 100 * number, 32), Image.new("RGB", (32, 32), colour), 0.7)
            save(glass, tmp_path / f"{name}/{index}.png")
    (tmp_path / "red/7.png").rename(tmp_path / "blue/wrong.png")
    weights = tmp_path.parent / "tiny.safetensors"
    model = randomise(create_model("Ti/16", image_size=32, depth=2, num_classes=2))
    half = (0.5, 0.5, 0.5)
    Artefact(model, preprocessing=Preprocessing(size=(32, 32), mean=half, std=half), source="test").save(weights)
    command(str(tmp_path), model=str(weights), json=True)
    found = json.loads(capsys.readouterr().out)["findings"]
    (suspects,) = (finding for finding in found if finding["kind"] == "suspect-labels")
    assert suspects["pictures"][0].endswith("wrong.png")
    assert "labelled 'blue', looks like 'red'" in suspects["details"][0]
