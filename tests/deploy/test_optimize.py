"""The search measures, keeps to what was asked, and writes what it measured to win."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from deploy.families import CLASSES, made
from page.html_checker import Checker
from vitrail import Predictor, load
from vitrail.cli import optimize as cli
from vitrail.deploy.candidates import candidates
from vitrail.deploy.frontier import page
from vitrail.deploy.optimize import Measured, Search, Wanted, frontier
from vitrail.deploy.parity import waves
from vitrail.errors import CheckFailed, FileError


def measured(name="a", accuracy=0.9, drop=0.0, ms=10.0, size=1000, faster=1.0) -> Measured:
    return Measured(name, accuracy, drop, ms, 1000 / ms, size, faster, faster)


def test_the_frontier_is_what_nothing_beats():
    found = [measured("slow", 0.9, ms=10), measured("fast", 0.8, ms=1), measured("beaten", 0.7, ms=5)]
    assert [one.name for one in frontier(found)] == ["fast", "slow"]
    alike = [measured("b", 0.9, ms=1), measured("a", 0.95, ms=1)]
    assert [one.name for one in frontier(alike)] == ["a"]


def test_what_is_wanted():
    assert Wanted(max_drop=0.5).allows(measured(drop=0.5))
    assert not Wanted(max_drop=0.5).allows(measured(drop=0.6))
    assert not Wanted(max_ms=9).allows(measured(ms=10))
    small, quick = measured(size=1, faster=1), measured(size=9, faster=2)
    assert min([small, quick], key=Wanted(target="size").rank) is small
    assert min([small, quick], key=Wanted(target="latency").rank) is quick
    assert min([small, quick], key=Wanted(target="throughput").rank) is quick


@pytest.mark.parametrize("family", ["class token", "attention pool", "hybrid", "rectangular", "R18"])
def test_every_candidate_of_every_kind_can_be_made(family):
    artefact = made(family)
    config = artefact.model.config
    found = list(candidates(artefact, waves(config.image_size, config.channels, 2)))
    assert found[0].exact
    assert len({candidate.name for candidate in found}) == len(found)
    for candidate in found[::3]:  # each model once, in floats
        model = candidate.artefact()
        logits = Predictor.of(model).engine(waves(model.model.config.image_size, config.channels, 1))
        assert np.isfinite(logits).all()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A model with few candidates, and a table of pictures labelled by it: it is right on all of val and test."""
    tmp_path = tmp_path_factory.mktemp("photos")
    artefact = made("rotary", image_size=16, depth=1)
    artefact.save(tmp_path / "model.safetensors")
    predictor, generator = Predictor.of(artefact), np.random.default_rng(0)
    rows = ["path,label,split"]
    for number in range(55):
        pixels = np.repeat(np.repeat(generator.integers(0, 256, (4, 4, 3), np.uint8), 8, 0), 8, 1)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        split = "train" if number < 5 else "val" if number < 35 else "test"
        label = CLASSES[number] if split == "train" else predictor.predict(pixels).label
        rows.append(f"{number}.png,{label},{split}")
    (tmp_path / "data.csv").write_text("\n".join(rows))
    return tmp_path


def test_the_command_writes_what_it_measured_to_win(photos, capsys):
    out = photos / "small"
    cli.command(
        str(photos / "model.safetensors"), str(photos / "data.csv"), out=out, target="size", max_drop=100, json=True
    )
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads((out / "frontier.json").read_text())
    assert said["measured"][0]["name"] == "as it is"
    assert said["measured"][0]["drop"] == 0
    least = min(said["measured"], key=lambda one: one["bytes"])
    assert said["chosen"] == least
    assert len(said["measured"]) == 10
    assert said["failed"] == {}
    assert said["report"]["split"] == "test"
    assert said["report"]["original"] == 1.0
    written = load(out / "model.onnx")
    assert written.predict(photos / "7.png").label in CLASSES
    assert (out / "model.onnx").stat().st_size == least["bytes"]
    certificate = json.loads((out / "model.onnx.certificate.json").read_text())
    assert not certificate["exact"]
    assert "points of accuracy lost" in (out / "model.onnx.certificate.txt").read_text()
    html = (out / "frontier.html").read_text()
    assert Checker(html).references == []
    assert all(one["name"] in html for one in said["measured"])


def test_what_cannot_be_had_is_refused_and_nothing_written(photos):
    with pytest.raises(CheckFailed, match="nothing that was measured"):
        cli.command(
            str(photos / "model.safetensors"),
            str(photos / "data.csv"),
            out=photos / "none",
            max_ms=1e-6,
            minutes=1e-6,
            pictures=10,
        )
    assert not (photos / "none").exists()


def test_an_existing_folder_is_left_alone(photos):
    with pytest.raises(FileError, match="already there"):
        cli.command(str(photos / "model.safetensors"), str(photos / "data.csv"), out=photos)


def test_the_page_escapes_what_comes_from_outside():
    odd = measured("<b>&")
    html = page("<i>", Search([odd, measured("b", ms=3)], {"<u>": "why & how"}, odd, None, None), ["<p>"])
    assert Checker(html).references == []
    assert "&lt;b&gt;&amp;" in html
    assert "<b><b>" not in html
