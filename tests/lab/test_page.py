"""lab.html and the figures: everything said, nothing from outside, every word escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from page.html_checker import Checker
from vitrail.lab.claim import Results
from vitrail.lab.claims import all_claims, find
from vitrail.lab.figure import gap_lines, lines, panels, write_figure
from vitrail.lab.outcome import Outcome
from vitrail.lab.page import command, page, write_page
from vitrail.lab.task import Plan
from vitrail.lab.verdict import NOT_RUN, Verdict
from vitrail.page.document import text


def outcome(claim, seeds=3):
    random = np.random.default_rng(0)
    found = Results(
        {
            figure: {arm.name: random.uniform(0.4, 0.6, seeds).tolist() for arm in claim.judged}
            for figure in ("accuracy", "validation", *claim.measures)
        }
    )
    request = {"data": claim.data, "seeds": seeds, "minutes": 10.0, "jobs": 1}
    plan = Plan(claim.name, request, claim.steps, {}, 0, ())
    record = {
        "processor_seconds": 60.0,
        "versions": {"vitrail": "0", "torch": "<b>2</b>"},
        "command": plan.command(Path("runs/lab")),
    }
    return Outcome(claim, claim.judge(found), seeds, found, plan, (record,))


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.name)
def test_every_claim_has_a_figure_with_all_its_arms(claim, tmp_path):
    found = outcome(claim)
    (tmp_path / claim.name).mkdir()
    drawn = ET.parse(write_figure(found, tmp_path)).getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    said = "".join(panel.drawn + str(panel.keys) for panel in panels(claim, found.results))
    for arm in claim.judged:
        assert arm.name in said or arm.series in said


def test_the_gap_to_a_resnet_is_drawn_against_the_number_of_pictures():
    claim = find("data-size")
    found = outcome(claim).results
    first, *_ = panels(claim, found)
    assert [name for name, _ in first.keys] == ["ViT − ResNet, small", "ViT − ResNet, large"]
    for pictures in ("500", "1,600", "5,000", "16,000"):
        assert f">{pictures}</text>" in first.drawn
    line = gap_lines(claim, found)[0]
    values = np.subtract(found["accuracy"]["ViT small 500"], found["accuracy"]["ResNet small 500"])
    assert line.points[0][1] == pytest.approx(values.mean())
    assert line.band[0] == pytest.approx(stats.t.interval(0.95, 2, values.mean(), stats.sem(values)))


def test_the_share_that_trains_is_drawn_over_depth_and_rate():
    claim = find("pre-norm")
    table = {arm.name: [0.1, 0.1, 0.4] if arm.name.startswith("post") else [0.4] * 3 for arm in claim.judged}
    first, *_ = panels(claim, Results({"accuracy": table, "validation": table}))
    assert first.drawn.count(">33%</text>") == first.drawn.count(">100%</text>") == 9
    assert first.drawn.count('class="cell light"') == 9
    for words in ("post-norm, lr 0.01", ">16</text>", "mean 20.0%"):
        assert words in first.drawn


def test_two_seeds_have_a_band_that_an_axis_can_hold():
    claim = find("patch-size")
    drawn = lines(claim, outcome(claim, seeds=2).results)
    assert all(high - low < 1 for line in drawn for low, high in line.band)


def test_the_page_says_everything_of_every_claim():
    made = page([outcome(claim) for claim in all_claims()])
    assert all(reference.startswith("#") for reference in Checker(made).references)
    for claim in all_claims():
        for words in (claim.title, claim.hypothesis, claim.differs):
            assert text(words) in made
    assert "&lt;b&gt;2&lt;/b&gt;" in made


def test_the_papers_numbers_stand_beside_ours():
    made = page([outcome(find("positions"))])
    assert "(paper 0.614)" in made
    assert "vitrail lab positions --data cifar10 --seeds 3 --minutes 10 --jobs 1 --out runs/lab" in made


def test_a_claim_that_was_not_run_is_told_as_such(tmp_path):
    nothing = Outcome(find("positions"), Verdict(NOT_RUN, ()), 0)
    made = write_page(tmp_path, [nothing, outcome(find("filters"))]).read_text()
    assert "1 of 2 claims" in made
    assert "not run" in made
    assert command(nothing) == "vitrail lab positions"
    assert write_figure(nothing, tmp_path) is None
