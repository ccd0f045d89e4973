"""lab.html: every claim with its hypothesis, its figure, the paper's number, its verdict and how it was reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vitrail.lab.figure import panels, style
from vitrail.lab.outcome import Outcome
from vitrail.lab.statistics import mean_interval
from vitrail.lab.verdict import CONTRADICTED, NOT_HERE, NOT_RUN
from vitrail.page.document import document, text
from vitrail.report.section import figure, key
from vitrail.report.words import count, duration
from vitrail.weights.durable import write_text

LAB_PAGE = "lab.html"


def write_page(root: Path, outcomes: Sequence[Outcome]) -> Path:
    """The page into the lab's folder; its path."""
    root.mkdir(parents=True, exist_ok=True)
    write_text(root / LAB_PAGE, page(outcomes))
    return root / LAB_PAGE


def page(outcomes: Sequence[Outcome]) -> str:
    said = Counter(outcome.verdict.word for outcome in outcomes)
    summary = ", ".join(f"{said[word]} {word}" for word in said)
    tried = len(outcomes) - said[NOT_RUN]
    links = "".join(map(_link, outcomes))
    body = f"""<a class="skip" href="#{outcomes[0].claim.name}">Skip to the first claim</a>
<header><div>
  <p class="kicker">vitrail lab</p>
  <h1>{tried} of {len(outcomes)} claims of the paper, tried here</h1>
  <p class="summary">{text(summary)}. Hypotheses and rules were written before the runs. Intervals are of 95 %, over
  seeds; {text(_effort(outcomes))}.</p>
</div></header>
<div class="page">
  <nav aria-label="Claims"><ol><li><ol>{links}</ol></li></ol></nav>
  <main>{"".join(map(_part, outcomes))}
  </main>
</div>
<footer><p>Made by vitrail lab --report from the records beside this page.</p></footer>"""
    return document(title=f"The lab: {summary}", style=style(), body=body, script='"use strict";')


def _link(outcome: Outcome) -> str:
    name = outcome.claim.name
    return f'<li><a href="#{name}">{text(name)}<i>{outcome.verdict.word}</i></a></li>'


def _effort(outcomes: Sequence[Outcome]) -> str:
    runs, seconds = sum(len(o.records) for o in outcomes), sum(o.seconds for o in outcomes)
    return f"{count(runs, 'run')}, {duration(seconds)} of one core"


def _part(outcome: Outcome) -> str:
    claim, word = outcome.claim, outcome.verdict.word
    made = [] if outcome.results is None else panels(claim, outcome.results)
    drawn = "".join(figure(panel.caption, panel.drawn, key=key(*panel.keys)) for panel in made)
    rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in _rows(outcome) if value)
    return f"""
<section class="part" id="{claim.name}" aria-labelledby="{claim.name}-title">
  <p class="name">{text(claim.name)}</p>
  <h2 id="{claim.name}-title">{text(claim.title)}</h2>
  <p><span class="verdict {word.replace(" ", "-")}">{word}</span></p>
  <div class="figures">{drawn}</div>
  <div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>
</section>"""


def _rows(outcome: Outcome) -> list[tuple[str, str]]:
    claim, word = outcome.claim, outcome.verdict.word
    return [
        ("Hypothesis", text(claim.hypothesis)),
        ("In the paper", text(claim.paper)),
        ("Here", "<br>".join(map(text, _measured(outcome)))),
        ("Tests", "<br>".join(text(str(finding)) for finding in outcome.verdict.findings)),
        ("What differs", text(claim.differs)),
        ("Likely reason", text(claim.if_not) if word in (NOT_HERE, CONTRADICTED) else ""),
        ("Setting", "" if word == NOT_RUN else text(_setting(outcome))),
        ("Command", f"<code>{text(command(outcome))}</code>"),
        ("Versions", text(_versions(outcome))),
    ]


def _measured(outcome: Outcome) -> list[str]:
    """Each arm's mean and interval, with the paper's number where it has one."""
    if outcome.results is None:
        return []
    lines = []
    for name, values in outcome.results[outcome.claim.shown].items():
        found = mean_interval(values)
        half = f" ± {found.high - found.value:.4f}" if np.isfinite(found.high) else ""
        paper = outcome.claim.paper_values.get(name)
        lines.append(f"{name}: {found.value:.4f}{half}" + (f" (paper {paper:g})" if paper is not None else ""))
    return lines


def _setting(outcome: Outcome) -> str:
    assert outcome.plan is not None
    request = outcome.plan.request
    return (
        f"{request['data']} at {outcome.claim.side} pixels, {outcome.plan.steps:,} steps a run, "
        f"{count(request['seeds'], 'seed')}, {count(len(outcome.plan.tasks), 'run')}, "
        f"{duration(outcome.seconds)} of one core so far"
    )


def command(outcome: Outcome) -> str:
    """What to type for the same."""
    return outcome.records[-1]["command"] if outcome.records else f"vitrail lab {outcome.claim.name}"


def _versions(outcome: Outcome) -> str:
    seen = {", ".join(f"{name} {value}" for name, value in record["versions"].items()) for record in outcome.records}
    return "; ".join(sorted(seen))
