"""Verdicts on made-up numbers: what is clear is said, what is not is not."""

from __future__ import annotations

import pytest

from vitrail.lab.statistics import Interval
from vitrail.lab.verdict import CONTRADICTED, NOT_HERE, SUPPORTED, all_of, better, more_than, same, within


@pytest.mark.parametrize(
    ("low", "high", "least", "word"),
    [
        (0.01, 0.05, 0.0, SUPPORTED),
        (0.01, 0.05, 0.02, NOT_HERE),  # more, but perhaps not by enough
        (-0.01, 0.05, 0.0, NOT_HERE),
        (-0.05, -0.01, 0.0, CONTRADICTED),
        (-0.05, -0.01, 0.02, CONTRADICTED),
        (0.0, 0.0, 0.0, NOT_HERE),
    ],
)
def test_more_than(low, high, least, word):
    assert more_than("x", Interval((low + high) / 2, low, high), least).verdict == word


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.01, 0.01, SUPPORTED),
        (-0.03, 0.01, NOT_HERE),
        (-0.5, 0.5, NOT_HERE),  # too few seeds never prove two things equal
        (0.03, 0.05, CONTRADICTED),
        (-0.05, -0.03, CONTRADICTED),
        (0.01, 0.03, NOT_HERE),
    ],
)
def test_within(low, high, word):
    assert within("x", Interval((low + high) / 2, low, high), 0.02).verdict == word


TABLE = {"good": [0.60, 0.61, 0.62], "like it": [0.602, 0.609, 0.621], "bad": [0.50, 0.52, 0.51]}


def test_one_thing_refuted_refutes_the_whole():
    holds, falls = better(TABLE, "good", "bad"), better(TABLE, "bad", "good")
    unclear = better(TABLE, "good", "like it")
    assert all_of([holds, same(TABLE, "good", "like it", 0.02)]).word == SUPPORTED
    assert all_of([holds, unclear]).word == NOT_HERE
    assert all_of([holds, unclear, falls]).word == CONTRADICTED


def test_a_finding_says_its_numbers():
    assert str(better(TABLE, "good", "bad")).startswith("good minus bad: +0.1000 (+0.0")
