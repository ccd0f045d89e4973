"""`vitrail inspect` from the command line: files, folders and data sets, pages, tables, and what cannot be."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data.small_sets import class_folders
from oracles import randomise
from vitrail.cli.main import main
from vitrail.config import Preprocessing
from vitrail.model import create_model
from vitrail.weights.artefact import Artefact

SHAPE = {"image_size": (32, 48), "depth": 2, "num_classes": 3}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    steps = Preprocessing(size=(32, 48), mean=(0.5,) * 3, std=(0.5,) * 3)
    Artefact(randomise(create_model("Ti/16", **SHAPE)), ("ant", "bee", "[bold]<b>"), steps).save(path)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    generator = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(generator.integers(0, 256, (60, 50, 3), np.uint8)).save(tmp_path / f"{number}.png")
    return sorted(tmp_path.glob("*.png"))


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def inside(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    code, out, _ = run(capsys, "inspect", *words, "--json")
    assert code == 0
    return json.loads(out)["inside"]


def test_without_pictures_it_tells_the_weights_and_what_to_give(model_file: Path, capsys: Any) -> None:
    found = inside(capsys, model_file)
    assert len(found["filters"]["variance"]) == 28
    shape = {"neighbours", "far", "same_row", "same_column", "elsewhere"}
    assert set(found["positions"]) == {"scheme", "by_steps"} | shape
    assert found["positions"]["by_steps"][0] == found["positions"]["neighbours"]
    assert found["blocks"] == []
    assert "--images" in found["notes"][0]
    _, out, _ = run(capsys, "inspect", model_file)
    assert "positions alike" in out
    assert "--images" in out


def test_pictures_show_block_by_block(model_file: Path, pictures: list[Path], capsys: Any) -> None:
    found = inside(capsys, model_file, "--images", *pictures)
    assert found["pictures"] == 3
    assert [block["block"] for block in found["blocks"]] == [1, 2]
    for block in found["blocks"]:
        distance = block["distance"]
        assert distance["least"] == min(distance["heads"])
        assert distance["most"] == max(distance["heads"])
        assert distance["least"] <= distance["mean"] <= distance["most"] < (32**2 + 48**2) ** 0.5
    assert found["blocks"][-1]["agreement"] == 1
    _, out, _ = run(capsys, "inspect", model_file, "--images", *pictures)
    assert "over 3 pictures" in out


def test_folders_and_patterns(model_file: Path, pictures: list[Path], tmp_path: Path, capsys: Any) -> None:
    assert inside(capsys, model_file, "--images", pictures[0].parent)["pictures"] == 3
    assert inside(capsys, model_file, "--images", f"{tmp_path}/*.png")["pictures"] == 3
    many = class_folders(tmp_path / "many", {"a": 150, "b": 150})
    assert inside(capsys, model_file, "--images", many)["pictures"] == 128


def test_what_cannot_be_read_is_named_and_left_out(model_file: Path, pictures: list[Path], capsys: Any) -> None:
    pictures[1].write_bytes(b"no picture")
    code, out, err = run(capsys, "inspect", model_file, "--images", *pictures, "--json")
    assert code == 0
    assert json.loads(out)["inside"]["pictures"] == 2
    assert str(pictures[1]) in err
    code, _, err = run(capsys, "inspect", model_file, "--images", pictures[1])
    assert code == 3
    assert "none of the pictures can be read" in err


def test_the_page_and_the_tables(model_file: Path, pictures: list[Path], tmp_path: Path, capsys: Any) -> None:
    target, folder = tmp_path / "inside.html", tmp_path / "tables"
    words = ["inspect", model_file, "--images", *pictures, "--out", target, "--csv", folder]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert out.splitlines()[-2:] == [str(target), str(folder)]
    assert "[bold]&lt;b&gt;" in target.read_text(encoding="utf-8")
    found = inside(capsys, model_file, "--images", *pictures)
    with (folder / "attention.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["distance_pixels"]) for row in rows if row["block"] == "2"] == found["blocks"][1]["distance"][
        "heads"
    ]
    names = {path.stem for path in folder.iterdir()}
    assert names == {"parts", "filters", "positions", "attention", "tokens"}
    before = target.read_bytes()
    code, _, err = run(capsys, *words)
    assert code == 3
    assert "is already there" in err
    assert target.read_bytes() == before
    assert run(capsys, *words, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("R18", "ResNet has no patches"), ("R+Ti/16", "stem stands before the patches"), ("Ti/16", "need pictures")],
)
def test_models_by_name(name: str, said: str, tmp_path: Path, capsys: Any) -> None:
    code, out, _ = run(capsys, "inspect", name, "--out", tmp_path / "page.html")
    assert code == 0
    assert said in " ".join(out.split())
    assert said in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_resnet_with_pictures_reads_none_of_them(pictures: list[Path], capsys: Any) -> None:
    assert inside(capsys, "R18", "--images", *pictures)["pictures"] == 0
