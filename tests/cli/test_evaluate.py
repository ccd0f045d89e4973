"""`vitrail evaluate`: as `predict` answers, so it is judged."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from oracles import randomise
from vitrail import Artefact, Preprocessing, create_model, load
from vitrail.cli.main import main
from vitrail.data.sources import open_data
from vitrail.data.split import write_split
from vitrail.evaluate.evaluation import Evaluation

CLASSES = ("cat", "ant", "bee")  # not in the order of the alphabet


@pytest.fixture
def model(tmp_path):
    steps = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.3,) * 3)
    made = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))
    (tmp_path / "run").mkdir()
    Artefact(made, CLASSES, steps, temperature=2.0, unknown_below=0.4).save(tmp_path / "run" / "model.safetensors")
    return tmp_path / "run" / "model.safetensors"


@pytest.fixture
def photos(tmp_path):
    generator = np.random.default_rng(0)
    for name in CLASSES:
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(8):
            noise = generator.integers(0, 256, (40, 30, 3), np.uint8)
            Image.fromarray(noise).save(folder / f"{number}.png")
    return tmp_path / "photos"


def run(capsys, *words):
    """Exit code, stdout, stderr."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_evaluating_is_predicting(model, photos, capsys):
    code, out, err = run(capsys, "evaluate", model, photos, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    found = Evaluation.from_dict(document["evaluation"])
    predictor = load(model)
    answers = {path: predictor.predict(path) for path in photos.rglob("*.png")}
    assert found.count == 24
    assert found.accuracy == np.mean([answer.label == path.parent.name for path, answer in answers.items()])
    assert found.known == np.mean([not answer.unknown for answer in answers.values()])
    assert [score.name for score in found.classes] == list(CLASSES)
    for i, true in enumerate(CLASSES):
        for j, guess in enumerate(CLASSES):
            pairs = [(path.parent.name, answer.label) for path, answer in answers.items()]
            assert found.confusion[i][j] == pairs.count((true, guess))


def test_a_table_for_people(model, photos, tmp_path, capsys):
    (photos / "ant" / "0.png").write_text("hello")
    code, out, err = run(capsys, "evaluate", model, photos, "--out", tmp_path / "x.json")
    assert code == 0
    assert f"vitrail: {photos / 'ant' / '0.png'}: this is text" in err
    assert err.count("\n") == 1
    for said in ("accuracy", "balanced accuracy", "calibration error", "Least often", "Most often"):
        assert said in out
    assert "1 picture could not be read and is left out" in out
    saved = json.loads((tmp_path / "x.json").read_text())
    assert saved["unreadable"] == 1
    assert saved["evaluation"]["count"] == 23


def test_other_classes_are_an_error_both_ways(model, photos, capsys):
    (photos / "cat").rename(photos / "Cat")
    shutil.copytree(photos / "ant", photos / "dog")
    code, out, err = run(capsys, "evaluate", model, photos)
    assert (code, out) == (3, "")
    assert "only the model has 'cat', only the data have 'Cat', 'dog'" in err


def test_splits(model, photos, capsys):
    for split, names in (("train", "01234"), ("valid", "5"), ("Test", "67")):
        for name in CLASSES:
            folder = photos / split / name
            folder.mkdir(parents=True)
            for number in names:
                (photos / name / f"{number}.png").rename(folder / f"{number}.png")
    for name in CLASSES:
        (photos / name).rmdir()
    for words, split, count in (([], "test", 6), (["--split", "val"], "val", 3), (["--split", "train"], "train", 15)):
        document = json.loads(run(capsys, "evaluate", model, photos, "--json", *words)[1])
        assert (document["split"], document["evaluation"]["count"]) == (split, count)
    code, _, err = run(capsys, "evaluate", model, photos, "--split", "vall")
    assert code == 2
    assert "it has train, val, test" in err


def test_a_run_is_not_judged_on_what_it_learnt_from(model, photos, tmp_path, capsys):
    examples = open_data(photos, val=0.25)
    write_split(model.parent / "split.csv", examples)
    for named in (model, model.parent):
        document = json.loads(run(capsys, "evaluate", named, photos, "--json")[1])
        assert (document["split"], document["evaluation"]["count"]) == ("val", len(examples.split("val")))
    shutil.copytree(photos / "cat", tmp_path / "new" / "cat")
    shutil.copytree(photos / "bee", tmp_path / "new" / "bee")
    shutil.copytree(photos / "bee", tmp_path / "new" / "ant")
    (tmp_path / "new" / "ant" / "0.png").unlink()
    document = json.loads(run(capsys, "evaluate", model.parent, tmp_path / "new", "--json")[1])
    assert document["evaluation"]["count"] == 23
    assert "not the data of the run, so its split is not used" in document["notes"]


def test_several_labels(model, photos, tmp_path, capsys):
    table = tmp_path / "table.csv"
    rows = [f"photos/{name}/{number}.png,{name}|bee" for name in ("cat", "ant") for number in range(8)]
    table.write_text("\n".join(["path,label", *rows]))
    code, _, err = run(capsys, "evaluate", model, table)
    assert code == 2
    assert "the pictures have several labels, and the model gives one" in err
    several = load(model).artefact
    several.multi_label, several.unknown_below = True, None
    several.save(model)
    found = json.loads(run(capsys, "evaluate", model, table, "--json")[1])["evaluation"]
    assert found["multi_label"]
    assert [score["support"] for score in found["classes"]] == [8, 8, 16]
    assert "mean average precision" in run(capsys, "evaluate", model, table)[1]
    found = json.loads(run(capsys, "evaluate", model, photos, "--json")[1])["evaluation"]  # one label each
    assert [score["support"] for score in found["classes"]] == [8, 8, 8]


def test_nothing_can_be_read(model, photos, capsys):
    for path in photos.rglob("*.png"):
        path.write_text("hello")
    code, out, err = run(capsys, "evaluate", model, photos)
    assert (code, out) == (3, "")
    assert "there is no picture that could be evaluated" in err
