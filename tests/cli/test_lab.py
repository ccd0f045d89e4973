"""`vitrail lab`: the list, a run, the report, wrong use."""

from __future__ import annotations

import dataclasses
import json

import pytest

from lab import tiny_lab
from vitrail.cli.main import main
from vitrail.lab.claims import NAMES, find


@pytest.fixture
def lab(capfd, monkeypatch, tmp_path):
    """`vitrail lab ...`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = main(["lab", *map(str, words)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def test_without_a_claim_all_are_listed_with_cost_and_verdict(lab):
    code, out, _ = lab()
    assert code == 0
    assert all(name in out for name in NAMES)
    assert "not run" in out
    assert "hours of one core" in out
    code, out, _ = lab("--json")
    rows = json.loads(out)
    assert [row["name"] for row in rows] == list(NAMES)
    assert all({"name", "verdict", "seeds", "figure"} <= set(row) for row in rows)


def test_a_claim_runs_to_a_verdict_and_a_page(lab, tmp_path, monkeypatch):
    data = tiny_lab.pictures(tmp_path / "p.npz")
    quick = dataclasses.replace(find("filters"), steps=2)
    monkeypatch.setattr("vitrail.lab.filters.CLAIM", quick)
    code, out, err = lab("filters", "--data", data, "--seeds", 2, "--out", "here", "--report", "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert row["name"] == "filters"
    assert row["verdict"] in ("supported", "not at this scale", "contradicted")
    assert row["seeds"] == 2
    assert (tmp_path / row["figure"]).exists()
    assert "2 of 2" in err
    page = (tmp_path / "here" / "lab.html").read_text()
    assert quick.hypothesis in page
    assert row["verdict"] in page
    code, out, _ = lab("--report", "--out", "here")
    assert code == 0
    assert out.strip().endswith("lab.html")
    assert "filters: " in out


def test_scale_answers_in_words_and_numbers(lab):
    words = ("scale", "--model", "B/16", "--images", "300M", "--epochs", 7, "--hardware", "8xA100")
    code, out, _ = lab(*words)
    assert code == 0
    assert "exaFLOPs" in out
    assert "days" in out
    assert json.loads(lab(*words, "--json")[1])["exaflops"] == pytest.approx(224, rel=0.06)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("position",), 2, "there is no claim 'position'; did you mean 'positions'?"),
        (("positions", "--seeds", 1), 2, "one seed has no interval; use --seeds 3 or more"),
        (("positions", "--minutes", 0), 2, "must be more than 0"),
        (("positions", "--data", "nothing-here"), 3, "no such folder or file"),
        (("scale", "--model", "L/17"), 2, "is not a multiple of"),
        (("scale", "--hardware", "8xB7"), 2, "A100"),
        (("scale", "--images", "many"), 2, "300M"),
    ],
)
def test_wrong_use_is_one_line_with_the_remedy(lab, words, code, said):
    found, out, err = lab(*words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") <= 2
