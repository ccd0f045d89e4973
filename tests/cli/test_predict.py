"""`vitrail predict`: any number of pictures, from anywhere; bad ones are named and the rest is answered."""

from __future__ import annotations

import csv
import io
import json
import os

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from oracles import randomise
from vitrail import Artefact, Preprocessing, create_model, load
from vitrail.cli.answers import Lines
from vitrail.cli.main import main
from vitrail.predict.answers import Prediction

CLASSES = ("ant", "[bold]bee", "cat")


@pytest.fixture
def model(tmp_path):
    steps = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.3,) * 3)
    made = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))
    Artefact(made, CLASSES, steps, unknown_below=0.5).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture
def photos(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("1.png", "2.png", "3.png", "deep/4.png", "deep/ö\n5.png"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (40, 30, 3), np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def bad(photos):
    (photos / "bad.jpg").write_text("hello")
    return photos / "bad.jpg"


def run(capsys, *words):
    """Exit code, stdout, stderr."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_lines_for_people(model, photos, capsys):
    code, out, err = run(capsys, "predict", model, photos / "1.png", photos / "2.png")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 2
    for line, name in zip(lines, ("1.png", "2.png"), strict=True):
        found = load(model).predict(photos / name)
        assert line.startswith(str(photos / name))
        assert f"{100 * found.probability:.1f} %" in line
        assert found.label in line
        assert ("unknown (" in line) == found.unknown
        assert found.top[2][0] in line


def test_bars_stand_below_each_other_whatever_is_said():
    out = io.StringIO()
    lines = Lines(Console(file=out, width=120), ("ant", "bumblebee"))
    for label, sure in (("ant", True), ("bumblebee", False)):
        lines.write("a.png", Prediction(label, 0.5, ((label, 0.5),), not sure, (label,) if sure else ()))
    first, second = out.getvalue().splitlines()
    assert "unknown (bumblebee?)" in second
    assert first.index("━") == second.index("━")


def test_json_is_one_document(model, photos, bad, capsys):
    code, out, err = run(capsys, "predict", model, photos, "--json", "--top", 2)
    assert code == 0
    found = {row.pop("file"): row for row in json.loads(out)}
    assert set(found) == {str(path) for path in photos.rglob("*.*g")}
    assert list(found.pop(str(bad))) == ["error"]
    predictor = load(model)
    for name, row in found.items():
        expected = predictor.predict(name, top=2).to_dict()
        assert (row["label"], row["unknown"], row["labels"]) == tuple(
            expected[k] for k in ("label", "unknown", "labels")
        )
        assert row["probability"] == pytest.approx(expected["probability"], abs=1e-5)
        assert len(row["top"]) == 2
    assert err.splitlines() == [
        f"vitrail: {bad}: this is text, which is not read here; save the picture as JPEG or PNG",
        "vitrail: 5 predicted, 1 could not be read",
    ]


def test_csv_can_be_read_back(model, photos, bad, tmp_path, capsys):
    code, out, _ = run(capsys, "predict", model, photos, bad, "--csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 7  # the bad one twice
    names = ["file", "label", "probability", "unknown", "labels", "error", "label_2", "probability_2"]
    assert list(rows[0]) == [*names, "label_3", "probability_3"]
    assert {row["file"] for row in rows} == {str(path) for path in photos.rglob("*.*g")}
    for row in rows:
        if row["file"] == str(bad):
            assert "this is text" in row["error"]
        else:
            assert sum(float(row[f"probability{place}"]) for place in ("", "_2", "_3")) == pytest.approx(1)
            assert row["labels"] == ("" if row["unknown"] == "true" else row["label"])
    code, nothing, _ = run(capsys, "predict", model, photos, bad, "--out", tmp_path / "x.csv")
    assert (code, nothing) == (0, "")
    assert sorted((tmp_path / "x.csv").read_text(encoding="utf-8").split("\n")) == sorted(out.split("\n"))


def test_out_is_whole_or_not_there(model, photos, tmp_path, capsys):
    assert run(capsys, "predict", model, photos, "--out", tmp_path / "x.json")[0] == 0
    assert len(json.loads((tmp_path / "x.json").read_text())) == 5
    code, _, err = run(capsys, "predict", model, photos, "--out", tmp_path / "none" / "x.json")
    assert code == 3
    assert "cannot be written" in err
    assert not list(tmp_path.glob(".vitrail-*"))


@pytest.mark.parametrize(("options", "separator"), [([], b"\n"), (["--null"], b"\0")])
def test_paths_from_stdin(model, photos, options, separator, capsys, monkeypatch):
    names = [photos / "2.png", photos / "1.png", *([photos / "deep" / "ö\n5.png"] if options else [])]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(separator.join(map(os.fsencode, names)))))
    code, out, _ = run(capsys, "predict", model, "-", "--json", *options)
    assert code == 0
    assert [row["file"] for row in json.loads(out)] == list(map(str, names))


def test_patterns_and_folders(model, photos, capsys):
    _, out, _ = run(capsys, "predict", model, f"{photos}/[12].png", photos / "deep", "--json")
    assert {row["file"] for row in json.loads(out)} == {
        str(photos / name) for name in ("1.png", "2.png", "deep/4.png", "deep/ö\n5.png")
    }


def test_none_could_be_read(model, bad, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    code, out, err = run(capsys, "predict", model, bad, tmp_path / "empty", "gone.png", "--json")
    assert code == 3
    assert [sorted(row) for row in json.loads(out)] == [["error", "file"]] * 2
    assert "no pictures in this folder" in err
    assert err.endswith("0 predicted, 3 could not be read\n")


def test_a_name_cannot_forge_a_line(model, tmp_path, capsys):
    Image.new("RGB", (9, 9)).save(tmp_path / "a\nvitrail: fine\x1b[2J.png")
    code, out, _ = run(capsys, "predict", model, tmp_path / "a\nvitrail: fine\x1b[2J.png")
    assert code == 0
    assert out.count("\n") == 1
    assert "\x1b" not in out


def test_names_that_are_not_unicode_come_back_as_they_were(model, tmp_path, capsys):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png")
    Image.new("RGB", (9, 9)).save(name)
    _, out, _ = run(capsys, "predict", model, tmp_path, "--json")
    assert [row["file"] for row in json.loads(out)] == [name]
    assert run(capsys, "predict", model, tmp_path, "--out", tmp_path / "x.csv")[0] == 0
    assert os.fsencode(name) in (tmp_path / "x.csv").read_bytes()


def test_what_the_file_does_not_say_is_said(photos, tmp_path, capsys):
    Artefact(create_model("Ti/16", image_size=32, depth=1, num_classes=2)).save(tmp_path / "plain.safetensors")
    code, out, err = run(capsys, "predict", tmp_path / "plain.safetensors", photos / "1.png", "--json")
    assert code == 0
    assert json.loads(out)[0]["label"] in "01"
    assert err.count("vitrail: note: ") == 2


WRONG = [
    ([], 2, "no pictures given; give files, folders"),
    (["x.jpg", "--json", "--csv"], 2, "choose one"),
    (["x.jpg", "--out", "x.txt"], 2, "use .json or .csv"),
    (["x.jpg", "--jsn"], 2, "there is no option --jsn; did you mean '--json'"),
    (["-x.jpg"], 2, "there is no option -x.jpg"),
    (["x.jpg", "--top", "0"], 2, "--top 0 must be at least 1"),
    (["x.jpg", "--batch-size", "0"], 2, "--batch-size 0 must be at least 1"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG)
def test_wrong_use_is_one_line_with_the_remedy(model, words, code, said, capsys):
    found, out, err = run(capsys, "predict", model, *words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1


def test_no_such_model(capsys):
    code, _, err = run(capsys, "predict", "gone.safetensors", "x.jpg")
    assert code == 3
    assert "gone.safetensors: no such file" in err
