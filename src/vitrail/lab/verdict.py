"""From numbers to a verdict, by rules that are stated before the run.

A claim is a list of findings, each an interval and what it must look like. All hold: supported. One is refuted with
confidence: contradicted. Anything else: not at this scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vitrail.lab.statistics import Interval, Table, difference

SUPPORTED, NOT_HERE, CONTRADICTED = "supported", "not at this scale", "contradicted"
NOT_RUN, UNFINISHED = "not run", "unfinished"


class Finding(NamedTuple):
    """One thing that was tested, in words, with its interval and its own verdict."""

    what: str
    interval: Interval
    verdict: str

    def __str__(self) -> str:
        return f"{self.what}: {self.interval}, {self.verdict}"


class Verdict(NamedTuple):
    word: str
    findings: tuple[Finding, ...]


def more_than(what: str, found: Interval, least: float = 0.0) -> Finding:
    """Holds where the whole interval lies above `least`, is refuted where it lies below 0."""
    if found.low > least:
        return Finding(what, found, SUPPORTED)
    return Finding(what, found, CONTRADICTED if found.high < min(0.0, least) else NOT_HERE)


def within(what: str, found: Interval, margin: float) -> Finding:
    """Holds where the whole interval lies in ±margin (equivalence), is refuted where it lies wholly outside."""
    if -margin < found.low and found.high < margin:
        return Finding(what, found, SUPPORTED)
    outside = found.low > margin or found.high < -margin
    return Finding(what, found, CONTRADICTED if outside else NOT_HERE)


def better(table: Table, one: str, other: str, least: float = 0.0) -> Finding:
    """`one` above `other`, by more than `least`."""
    return more_than(f"{one} minus {other}", difference(table, one, other), least)


def same(table: Table, one: str, other: str, margin: float) -> Finding:
    """`one` within `margin` of `other`."""
    return within(f"{one} minus {other}, within ±{margin:g}", difference(table, one, other), margin)


def all_of(findings: Sequence[Finding]) -> Verdict:
    """The claim holds if everything holds; it falls if one thing falls."""
    words = {finding.verdict for finding in findings}
    if CONTRADICTED in words:
        return Verdict(CONTRADICTED, tuple(findings))
    return Verdict(SUPPORTED if words == {SUPPORTED} else NOT_HERE, tuple(findings))
