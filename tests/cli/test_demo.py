"""`vitrail demo`: the main job with nothing of one's own, with and without anything to fetch."""

from __future__ import annotations

import re
import shlex
from functools import partial

import numpy as np
import pytest
from PIL import Image

from data.tiny_mnist import tiny_mnist, write_mnist
from vitrail.cli.demo import command
from vitrail.cli.main import main
from vitrail.data import drawn
from vitrail.data.catalog import CATALOG
from vitrail.data.download import Folder
from vitrail.errors import ConfigError

TINY = 0.01  # minutes: the least that a run can do


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))


def test_fetched_pictures_then_a_second_time(tmp_path, monkeypatch, capsys):
    entry = tiny_mnist(Folder(write_mnist(tmp_path / "files")))
    monkeypatch.setitem(CATALOG, "fashion-mnist", entry)
    monkeypatch.setitem(CATALOG, "tiny", entry)  # as its examples are called
    assert command(minutes=TINY) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.findall(r"^\d/\d", out, re.MULTILINE) == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    for said in (f"fetching tiny from {tmp_path / 'files'}", "8 train, 4 test pictures of 3 classes", "accuracy"):
        assert said in out
    unknown, said = out.count("unknown ("), re.search(r"of 3 are right(?:, of (\d) it is not sure)?;", out)
    assert said is not None
    assert int(said[1] or 0) == unknown
    assert "runs/demo/report.html" in out
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()
    files = sorted((tmp_path / "runs" / "demo-pictures").iterdir())
    assert [path.name for path in files] == ["a.png", "b.png", "c.png"]
    assert np.asarray(Image.open(files[0])).shape == (5, 4)
    next_lines = [line.split("  #")[0].strip() for line in out.splitlines() if line.startswith("  vitrail ")]
    assert [line.split()[1] for line in next_lines] == ["predict", "evaluate", "train"]
    for line in next_lines[:2]:
        assert main(shlex.split(line)[1:]) == 0, line

    assert command(minutes=TINY) == 0
    assert "runs/demo-2/report.html" in capsys.readouterr().out
    assert (tmp_path / "runs" / "demo-2-pictures" / "a.png").is_file()


def test_where_nothing_can_be_fetched_shapes_are_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(CATALOG, "fashion-mnist", tiny_mnist(Folder(tmp_path / "nowhere")))
    monkeypatch.setattr(drawn, "draw_shapes", partial(drawn.draw_shapes, train=80, test=40))  # fewer, to be quick
    assert command(minutes=TINY, out=tmp_path / "my runs" / "one") == 0
    out = capsys.readouterr().out
    assert out.count("shapes are drawn instead") == 1
    assert "80 train, 40 test pictures of 8 classes" in out
    assert "Nothing wrong was found." in out
    pictures = tmp_path / "my runs" / "one-pictures"
    assert len(list(pictures.glob("*.png"))) == 8
    line = next(line for line in out.splitlines() if line.startswith("  vitrail predict"))
    assert shlex.split(line.split("  #")[0])[2:] == [str(tmp_path / "my runs" / "one"), str(pictures / "crescent.png")]


def test_a_wrong_budget_is_told_before_anything_is_fetched(tmp_path, capsys):
    with pytest.raises(ConfigError, match="minutes=-1 must be more than 0"):
        command(minutes=-1)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []
