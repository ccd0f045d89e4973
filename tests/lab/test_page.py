"""lab.html and the figures: everything said, nothing from outside, every word escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from page.html_checker import Checker
from vitrail.lab.claim import Results
from vitrail.lab.claims import all_claims, find
from vitrail.lab.figure import draw, write_figure
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
    record = {"processor_seconds": 60.0, "versions": {"vitrail": "0", "torch": "<b>2</b>"}}
    return Outcome(claim, claim.judge(found), seeds, found, plan, (record,))


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.name)
def test_every_claim_has_a_figure_with_all_its_arms(claim, tmp_path):
    found = outcome(claim)
    (tmp_path / claim.name).mkdir()
    drawn = ET.parse(write_figure(found, tmp_path)).getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    said = draw(claim, found.results)
    for arm in claim.judged:
        assert arm.name in said or arm.series in said


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
    assert "vitrail lab positions --minutes 10.0" in made


def test_a_claim_that_was_not_run_is_told_as_such(tmp_path):
    nothing = Outcome(find("positions"), Verdict(NOT_RUN, ()), 0)
    assert "not run" in write_page(tmp_path, [nothing]).read_text()
    assert command(nothing) == "vitrail lab positions"
    assert write_figure(nothing, tmp_path) is None
