"""Can its confidence be believed, and what is gained by letting it say "unknown"?"""

from __future__ import annotations

from vitrail.evaluate.evaluation import Evaluation
from vitrail.report import charts
from vitrail.report.facts import RunFacts
from vitrail.report.scales import share_axis
from vitrail.report.section import Section, figure, key
from vitrail.report.words import percent

NEARLY_ONE = 0.02  # temperatures this close to 1 change nothing that can be seen


def confidence_section(facts: RunFacts) -> Section:
    scores = facts.evaluation
    drawn = _calibration(scores) + _coverage(scores)
    return Section("Confidence", _title(scores), _words(scores), f'<div class="charts">{drawn}</div>')


def _title(scores: Evaluation) -> str:
    over = sum(bin.count * (bin.confidence - bin.accuracy) for bin in scores.reliability)
    if scores.ece < 0.03:
        return "When it says how sure it is, believe it"
    return f"It is {'surer of itself than it should be' if over > 0 else 'better than it thinks'}"


def _words(scores: Evaluation) -> str:
    before = (
        f"; before calibration it was {percent(scores.raw_ece)} (temperature {scores.temperature:.2f})"
        if _is_calibrated(scores)
        else ""
    )
    means = f"On average, how sure it is and how often it is right differ by {percent(scores.ece)}{before}."
    if scores.known is None or scores.unknown_below is None or scores.known_accuracy is None:
        return means
    return (
        f"{means} An answer less than {percent(scores.unknown_below)} sure is given as unknown: it then answers "
        f"{percent(scores.known)} of the pictures, and is right in {percent(scores.known_accuracy)} of those."
    )


def _is_calibrated(scores: Evaluation) -> bool:
    return abs(scores.temperature - 1) > NEARLY_ONE


def _calibration(scores: Evaluation) -> str:
    groups = [("as it is used", "second", scores.reliability)]
    if _is_calibrated(scores):
        groups.insert(0, ("before calibration", "first", scores.raw_reliability))
    label = "How often it is right when it is so sure"
    names = key(*((name, kind) for name, kind, _ in groups), ("sure as it is right", "level"))
    return figure(label, charts.reliability_chart(label, groups), key=names)


def _coverage(scores: Evaluation) -> str:
    if not scores.coverage:
        return ""
    points = [(point.coverage, point.accuracy) for point in scores.coverage]
    plane = charts.Plane(
        share_axis("share of pictures it answers, surest first"),
        share_axis("how often it is right", [*(right for _, right in points), 1.0]),
    )
    marks = ""
    if scores.known is not None and scores.known_accuracy is not None and scores.unknown_below is not None:
        name = f"unknown below {percent(scores.unknown_below, 0)} sure"
        marks = charts.threshold((scores.known, scores.known_accuracy), plane, name)
    label = "How often it is right when it answers only the surest"
    drawn = charts.line_chart(label, [charts.Line("right", points, "second")], plane, marks=marks)
    return figure(label, drawn)
