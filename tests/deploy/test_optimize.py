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
from vitrail.deploy.candidates import Candidate, singles, together
from vitrail.deploy.frontier import page
from vitrail.deploy.optimize import Measured, Search, Wanted, frontier, search
from vitrail.deploy.parity import waves
from vitrail.errors import CheckFailed, ConfigError, FileError


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
    found = singles(artefact, some_waves)
    assert len({candidate.name for candidate in found}) == len(found) >= 3
    assert Candidate(artefact).exact
    assert not any(candidate.exact for candidate in found)
    for candidate in found:
        model = candidate.artefact()
        assert np.isfinite(Predictor.of(model).engine(some_waves(model))).all()


def some_waves(artefact):
    return waves(artefact.preprocessing.size, artefact.model.config.channels, 2)


def test_ways_of_different_kinds_go_together():
    found = {candidate.name: candidate for candidate in singles(made("class token"), some_waves)}
    pixels, merged, units, heads = "24x24 pixels", "1 patches merged a block", "48 of 64 hidden units", "1 of 2 heads"
    all_at_once = Candidate(made("class token"))
    for name in (merged, "int8", pixels, heads, units):
        all_at_once = together(all_at_once, found[name])
    assert all_at_once.name == f"{units}, {heads}, {pixels}, {merged}, int8"
    config = all_at_once.artefact().model.config
    assert (config.mlp_dim, config.heads, config.image_size, config.merge) == (48, 1, (24, 24), 1)
    assert len(all_at_once.content()) < len(Candidate(made("class token")).content())
    assert together(found["int8"], found["int8, calibrated"]) is None
    assert together(found[pixels], found["patches of 10x10"]) is None


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
        str(photos / "model.safetensors"),
        str(photos / "data.csv"),
        options=cli.Options(out=out, target="size", max_drop=100, json=True),
    )
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads((out / "frontier.json").read_text())
    assert said["measured"][0]["name"] == "as it is"
    assert said["measured"][0]["drop"] == 0
    least = min(said["measured"], key=lambda one: one["bytes"])
    assert said["chosen"] == least
    names = [one["name"] for one in said["measured"]]
    assert names[1] == "ONNX Runtime"
    assert {"int8", "int8, calibrated", "48 of 64 hidden units", "1 of 2 heads"} <= set(names)
    assert "48 of 64 hidden units, 1 of 2 heads, 8x8 pixels, int8" in names, "winners were not put together"
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


def opened(photos):
    from vitrail.data.sources import open_data
    from vitrail.predict.examples import match_classes

    predictor = load(photos / "model.safetensors")
    return predictor, match_classes(open_data(str(photos / "data.csv"), val=0.0), predictor)


PACE = {"split": "val", "pictures": 10}


def test_what_is_shown_is_what_is_written(photos):
    """No time for anything: the original is exported, and the numbers are the export's."""
    found = search(*opened(photos), Wanted(), **PACE, seconds=0)
    assert [one.name for one in found.measured] == ["as it is", "ONNX Runtime"]
    assert found.chosen == found.measured[1]
    assert found.chosen.bytes == len(found.content)
    assert found.candidate.exact


def test_an_interrupted_search_keeps_the_best_until_then(photos):
    heard = []

    def stop_at_the_second(name, done):
        heard.append(name)
        assert 0 <= done <= 1
        if len(heard) == 2:
            raise KeyboardInterrupt

    found = search(*opened(photos), Wanted(100, None, "size"), **PACE, seconds=1e6, begin=stop_at_the_second)
    assert [one.name for one in found.measured] == ["as it is", "ONNX Runtime", heard[0]]
    assert found.chosen.bytes == len(found.content) == min(one.bytes for one in found.measured[1:])


def test_a_pruned_model_is_trained_on_with_the_original_as_its_teacher(photos):
    from rich.console import Console

    from vitrail.deploy.recover import recovered
    from vitrail.train.progress import Display
    from vitrail.train.settings import Budget

    predictor, examples = opened(photos)
    asked = []

    def recover(small):
        asked.append(small.model.config.mlp_dim)
        teacher = str(photos / "model.safetensors")
        return recovered(small, teacher, examples, Budget(steps=2), Display(Console(quiet=True)))

    found = search(predictor, examples, Wanted(100, None, "size"), **PACE, seconds=1e6, recover=recover)
    assert asked == [32]
    assert found.failed == {}
    names = [one.name for one in found.measured]
    assert "32 of 64 hidden units, trained on" in names
    assert any(name.startswith("32 of 64 hidden units, trained on, ") for name in names), "it was not combined"


def test_a_recovery_that_was_asked_for_comes_though_the_time_is_over(photos):
    found = search(*opened(photos), Wanted(), **PACE, seconds=0, recover=lambda small: small)
    assert [one.name for one in found.measured][2:] == ["32 of 64 hidden units, trained on"]


def test_pictures_that_are_trained_on_do_not_choose(photos, tmp_path):
    rows = (photos / "data.csv").read_text().splitlines()
    alone = "\n".join([rows[0], *(f"{photos}/{row}" for row in rows[1:6])])
    (tmp_path / "train.csv").write_text(alone)
    with pytest.raises(ConfigError, match="none are left to choose by"):
        cli.command(
            str(photos / "model.safetensors"),
            str(tmp_path / "train.csv"),
            options=cli.Options(out=tmp_path / "out", recover_minutes=1),
        )


def test_nothing_to_train_on_is_said(photos):
    from vitrail.deploy.recover import recovered

    predictor, examples = opened(photos)
    without = examples.replace(splits={"val": examples.split("val")})
    with pytest.raises(ConfigError, match="no training pictures"):
        recovered(predictor.artefact, "model", without, None, None)


def test_what_cannot_be_had_is_refused_and_nothing_written(photos):
    with pytest.raises(CheckFailed, match="nothing that was measured"):
        cli.command(
            str(photos / "model.safetensors"),
            str(photos / "data.csv"),
            options=cli.Options(out=photos / "none", max_ms=1e-6, minutes=1e-6, pictures=10),
        )
    assert not (photos / "none").exists()


def test_an_existing_folder_is_left_alone(photos):
    with pytest.raises(FileError, match="already there"):
        cli.command(str(photos / "model.safetensors"), str(photos / "data.csv"), options=cli.Options(out=photos))


def test_the_page_escapes_what_comes_from_outside():
    odd = measured("<b>&")
    html = page("<i>", Search([odd, measured("b", ms=3)], {"<u>": "why & how"}, odd, b"", None), ["<p>"])
    assert Checker(html).references == []
    assert "&lt;b&gt;&amp;" in html
    assert "<b><b>" not in html
