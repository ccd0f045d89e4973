"""Class by class: which are recognised, and which are taken for which."""

from __future__ import annotations

import numpy as np

from vitrail.evaluate.evaluation import ClassScore, Evaluation
from vitrail.page.document import text
from vitrail.report import charts
from vitrail.report.facts import RunFacts
from vitrail.report.section import Section, bar, figure
from vitrail.report.words import count, listed, percent

NUMBERED_CLASSES = 16  # up to which the confusion matrix is a table of numbers
MAPPED_CLASSES = 1000  # up to which it is a heat map; a cell of more classes would be smaller than a pixel
MAPPED_CELLS = 6000
LISTED_CONFUSIONS = 12
TABLE_ROWS = 1000


def class_section(facts: RunFacts) -> Section:
    """One row a class, worst first."""
    scores = facts.evaluation
    ranked = sorted(scores.classes, key=_badness)
    columns = ("Class", "Pictures", "Average precision" if scores.multi_label else "Recognised", "Precision", "F1")
    kinds = ("words", "", "barred", "", "")
    heads = [
        f'<th scope="col" class="{kind}"><button type="button">{name}</button></th>'
        for name, kind in zip(columns, kinds, strict=True)
    ]
    often = {} if scores.multi_label else _most_often_taken_for(scores)
    if often:
        heads.append('<th scope="col" class="words">Most often taken for</th>')
    rows = "".join(_class_row(score, often.get(score.name)) for score in ranked[:TABLE_ROWS])
    table = f'<table class="classes sortable"><thead><tr>{"".join(heads)}</tr></thead><tbody>{rows}</tbody></table>'
    left = len(ranked) - TABLE_ROWS
    more = f"<p class='note'>The {left:,} best classes are not shown.</p>" if left > 0 else ""
    scroll = f'<div class="scroll tall" tabindex="0" role="region" aria-label="Figures by class">{table}</div>{more}'
    return Section("Classes", _class_title(scores), _class_words(scores), scroll)


def _main_figure(score: ClassScore) -> float | None:
    """What a class is judged by; None where no picture has it."""
    if not score.support:
        return None
    return score.recall if score.average_precision is None else score.average_precision


def _badness(score: ClassScore) -> tuple[float, int]:
    """Worst first, larger classes first among equals, classes without pictures last."""
    value = _main_figure(score)
    return (2.0 if value is None else value), -score.support


def _class_row(score: ClassScore, taken_for: str | None) -> str:
    value = _main_figure(score)
    figures = [None, None] if value is None else [score.precision, score.f1]
    cells = [
        f'<td data-v="{score.support}">{score.support:,}</td>',
        '<td class="barred" data-v="2">–</td>'
        if value is None
        else f'<td class="barred" data-v="{value:.5f}">{bar(value)} {percent(value)}</td>',
        *('<td data-v="2">–</td>' if f is None else f'<td data-v="{f:.5f}">{percent(f)}</td>' for f in figures),
    ]
    if taken_for is not None:
        cells.append(f'<td class="words">{text(taken_for)}</td>')
    return f'<tr><th scope="row">{text(score.name)}</th>{"".join(cells)}</tr>'


def _most_often_taken_for(scores: Evaluation) -> dict[str, str]:
    """For each class, the other one that its pictures are most often given to, and how often."""
    matrix = np.array(scores.confusion)
    np.fill_diagonal(matrix, 0)
    found = {}
    for row, score, other in zip(matrix, scores.classes, matrix.argmax(axis=1).tolist(), strict=True):
        found[score.name] = f"{scores.classes[other].name} ({row[other]:,})" if row[other] else ""
    return found


def _class_title(scores: Evaluation) -> str:
    return f"How well it knows each of the {count(len(scores.classes), 'label' if scores.multi_label else 'class')}"


def _class_words(scores: Evaluation) -> str:
    absent = sum(not score.support for score in scores.classes)
    none = f" {count(absent, 'class').capitalize()} had no picture to be measured on." if absent else ""
    if scores.multi_label:
        return (
            "Average precision says how well the pictures with a label rank above those without it. "
            f"Precision is the share of given labels that are right. Worst first.{none}"
        )
    return (
        "Recognised: the share of a class's pictures that the model names rightly. Precision: the share of its answers "
        f"with this name that are right. F1 is both in one figure. Worst first.{none}"
    )


# ---- confusions ---------------------------------------------------------------------------------------------------


def confusion_section(facts: RunFacts) -> Section | None:
    scores = facts.evaluation
    if scores.multi_label or len(facts.classes) > MAPPED_CLASSES:
        return None
    drawn = _numbers(scores) if len(facts.classes) <= NUMBERED_CLASSES else _heat_map(scores)
    return Section(
        "Confusions",
        _confusion_title(scores),
        _confusion_words(scores),
        f'<div class="pair">{drawn}{_top_confusions(scores)}</div>',
    )


def _confusion_title(scores: Evaluation) -> str:
    worst = scores.confusions(1)
    if not worst:
        return "It takes no class for another"
    return f"Most often it takes {worst[0].true} for {worst[0].predicted}"


def _confusion_words(scores: Evaluation) -> str:
    wrong = round((1 - scores.accuracy) * scores.count)
    if not wrong:
        return "Rows are what the pictures show, columns what the model said; all are on the diagonal."
    pairs = sum(value > 0 for i, row in enumerate(scores.confusion) for j, value in enumerate(row) if i != j)
    return (
        f"{count(wrong, 'mistake').capitalize()}, in {count(pairs, 'pair')} of classes. "
        "Rows are what the pictures show, columns what the model said."
    )


def _numbers(scores: Evaluation) -> str:
    names = [score.name for score in scores.classes]
    heads = "".join(f'<th scope="col"><span>{text(name)}</span></th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>{_number_cells(i, row, names)}</tr>'
        for i, (name, row) in enumerate(zip(names, scores.confusion, strict=True))
    )
    table = f'<table class="matrix"><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Confusion matrix">{table}</div>'


def _number_cells(i: int, row: tuple[int, ...], names: list[str]) -> str:
    total = max(1, sum(row))
    return "".join(
        f'<td class="{"right" if i == j else "wrong" if value else "none"}" style="--s:{value / total:.3f}" '
        f'title="{text(f"{names[i]}: said {names[j]} {value:,} of {total:,} times")}">{value if value else "·"}</td>'
        for j, value in enumerate(row)
    )


def _heat_map(scores: Evaluation) -> str:
    names = [score.name for score in scores.classes]
    label = f"Confusion matrix of {len(names)} classes; the most frequent mistakes are listed beside it"
    drawn = charts.heat_map(label, scores.confusion, names, MAPPED_CELLS)
    caption = "What the pictures show (down) and what the model said (across). Blue is right, red is wrong."
    more = (
        f" The {MAPPED_CELLS:,} largest numbers are drawn." if np.count_nonzero(scores.confusion) > MAPPED_CELLS else ""
    )
    return figure(f"{caption} Point at a cell to read it.{more}", drawn, "heat")


def _top_confusions(scores: Evaluation) -> str:
    found = scores.confusions(LISTED_CONFUSIONS)
    if not found:
        return ""
    support = {score.name: score.support for score in scores.classes}
    items = "".join(
        f"<li><span><b>{text(c.true)}</b> taken for <b>{text(c.predicted)}</b></span> {bar(c.count / support[c.true])} "
        f"<span>{c.count:,} of {support[c.true]:,}</span></li>"
        for c in found
    )
    return figure("Most frequent mistakes", f'<ol class="bars">{items}</ol>', "ranking")


def worst_in_words(scores: Evaluation, limit: int = 3) -> str:
    """`Anjou (41.2%) and Conference (55.0%)`: the classes it knows least."""
    worst = sorted((score for score in scores.classes if score.support), key=_badness)[:limit]
    return listed([f"{score.name} ({percent(_main_figure(score) or 0.0)})" for score in worst])
