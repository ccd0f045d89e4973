"""A diagnosis as one self-contained page: what was found, worst first, with the pictures side by side."""

from __future__ import annotations

from itertools import groupby

from vitrail.data.doctor_parts import Diagnosis, Finding, Severity, class_counts, labels_of, split_of
from vitrail.data.examples import Examples
from vitrail.errors import VitrailError
from vitrail.page.document import document, resource, text
from vitrail.page.pictures import img
from vitrail.report import charts
from vitrail.report.section import figure
from vitrail.report.words import count, listed

SHOWN, IN_A_SET, NAMED = 12, 6, 200  # sets or pictures of a finding, pictures of a set, lines of text
SIDE = 240  # pixels across, enough for a card on a fine screen
MANY_CLASSES = 40  # from which they are a chart rather than a list

_HEADINGS: dict[Severity, str] = {"error": "To put right", "warning": "To look at", "note": "Good to know"}


def page(diagnosis: Diagnosis) -> str:
    """The whole document."""
    shown = _Shown(diagnosis.examples)
    findings = "".join(_section(finding, number, shown) for number, finding in enumerate(diagnosis.findings, 1))
    body = f"""<a class="skip" href="#found">Skip to what was found</a>
{_opening(diagnosis)}
<div class="page">
  <nav aria-label="Findings">{_contents(diagnosis)}</nav>
  <main id="found">{findings}{_classes(diagnosis.examples)}
  </main>
</div>
<footer><p>Made by vitrail doctor, which only looks: no file was changed.</p></footer>
<div id="hint" role="status" hidden></div>"""
    style = resource("vitrail.report", "report.css") + resource("vitrail.report", "doctor.css")
    title = f"{diagnosis.name}: {_headline(diagnosis)}"
    return document(title=title, style=style, body=body, script=resource("vitrail.report", "report.js"))


# ---- the opening --------------------------------------------------------------------------------------------------


def _headline(diagnosis: Diagnosis) -> str:
    severe: tuple[Severity, ...] = ("error", "warning")
    counted = [count(number, severity) for severity in severe if (number := diagnosis.number(severity))]
    return f"{listed(counted) if counted else 'Nothing wrong'} found in {count(len(diagnosis.examples), 'picture')}"


def _opening(diagnosis: Diagnosis) -> str:
    examples = diagnosis.examples
    splits = listed([f"{len(indices):,} {split}" for split, indices in examples.splits.items()])
    about = f"{splits}; {count(len(examples.classes), 'class')}" if examples.classes else splits
    whole = _untouched(diagnosis)
    alt = f"{whole} of 100 panes of a window are in colour: the part of the pictures that nothing is wrong with"
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in examples.notes)
    return f"""<header>
  <div>
    <p class="kicker">Examination of {text(diagnosis.name)}</p>
    <h1>{text(_headline(diagnosis))}</h1>
    <p class="between">{text(about)}</p>
    <p class="summary">{text(_summary(whole))}</p>
    {notes}
  </div>
  <div class="window">{charts.window(alt, whole, 100)}</div>
</header>"""


def _untouched(diagnosis: Diagnosis) -> int:
    """Of 100 pictures, how many no error or warning is about; all only if it is all."""
    touched = {i for finding in diagnosis.findings if finding.severity != "note" for i in finding.indices}
    total = max(1, len(diagnosis.examples))
    return round(100 * (total - len(touched)) / total) - (0 < len(touched) < total / 200)


def _summary(whole: int) -> str:
    if whole == 100:
        return "No error or warning is about a single picture."
    return f"Nothing is wrong with about {whole} of 100 pictures; the others are shown below, with what to do."


def _contents(diagnosis: Diagnosis) -> str:
    groups = []
    numbered = enumerate(diagnosis.findings, 1)
    for severity, findings in groupby(numbered, key=lambda pair: pair[1].severity):
        items = "".join(f'<li><a href="#finding-{n}">{text(_name(finding))}</a></li>' for n, finding in findings)
        groups.append(f'<li class="found-{severity}"><span>{_HEADINGS[severity]}</span><ol>{items}</ol></li>')
    if diagnosis.examples.classes:
        groups.append('<li><span>The set</span><ol><li><a href="#classes">Classes</a></li></ol></li>')
    return f"<ol>{''.join(groups)}</ol>"


# ---- a finding ----------------------------------------------------------------------------------------------------


class _Shown:
    """Pictures as cards, with their labels and splits."""

    def __init__(self, examples: Examples) -> None:
        self.examples, self.splits = examples, split_of(examples)

    def card(self, index: int, words: str = "") -> str:
        name = self.examples.pictures.name(index)
        labels = ", ".join(labels_of(self.examples, index)) or "no label"
        split = self.splits.get(index, "no split")
        said = f"<p>{text(words)}</p>" if words else ""
        short = text(name.replace("\\", "/").rsplit("/", 1)[-1])
        return (
            f'<li>{self._frame(index)}<div><p class="truth"><b>{text(labels)}</b> <span>{text(split)}</span></p>'
            f'{said}<p class="file" title="{text(name)}">{short}</p></div></li>'
        )

    def _frame(self, index: int) -> str:
        try:
            pixels = self.examples.pictures.read(index, draft=(SIDE, SIDE))
            return f'<div class="frame">{img(pixels, SIDE, text(self.examples.pictures.name(index)))}</div>'
        except VitrailError as error:
            return f'<div class="frame"><p class="gone">cannot be shown: {text(error.what)}</p></div>'


def _name(finding: Finding) -> str:
    return finding.kind.replace("-", " ").capitalize()


def _section(finding: Finding, number: int, shown: _Shown) -> str:
    what = finding.what[:1].upper() + finding.what[1:]
    return f"""
<section class="part found-{finding.severity}" id="finding-{number}" aria-labelledby="title-{number}">
  <p class="name">{finding.severity.capitalize()}: {text(_name(finding).lower())}</p>
  <h2 id="title-{number}">{text(what)}</h2>
  <p class="words remedy">{text(finding.fix[:1].upper() + finding.fix[1:])}.</p>
  {_body(finding, shown)}
</section>"""


def _body(finding: Finding, shown: _Shown) -> str:
    if finding.groups:
        sets = "".join(_set(group, shown) for group in finding.groups[:SHOWN])
        return f'<div class="sets">{sets}</div>{_more(len(finding.groups), SHOWN, "set")}'
    if finding.kind == "unreadable" or (finding.details and not finding.indices):
        lines = "".join(f"<li>{text(line)}</li>" for line in finding.details[:NAMED])
        return f'<ul class="lines">{lines}</ul>{_more(len(finding.details), NAMED, "line")}'
    words = finding.details or ("",) * len(finding.indices)
    pairs = list(zip(finding.indices, words, strict=True))[:SHOWN]
    cards = "".join(shown.card(index, said) for index, said in pairs)
    return f'<ul class="cards">{cards}</ul>{_more(len(finding.indices), SHOWN, "picture")}' if pairs else ""


def _set(group: tuple[int, ...], shown: _Shown) -> str:
    cards = "".join(shown.card(index) for index in group[:IN_A_SET])
    return f'<div class="set"><ul class="cards">{cards}</ul>{_more(len(group), IN_A_SET, "picture")}</div>'


def _more(total: int, limit: int, thing: str) -> str:
    more = total - limit
    return f'<p class="note">and {count(more, thing).replace(" ", " more ", 1)}</p>' if more > 0 else ""


# ---- the classes --------------------------------------------------------------------------------------------------


def _classes(examples: Examples) -> str:
    if not examples.classes:
        return ""
    counts = class_counts(examples)
    splits = list(examples.splits)
    caption = "Pictures of each class, by split"
    if len(counts) > MANY_CLASSES:
        totals = [sum(by_split.values()) for by_split in counts.values()]
        drawn = charts.column_chart(caption, list(counts), totals, "pictures", f"{len(counts):,} classes")
        return _classes_section(figure("Pictures of each class", drawn, "chart wide") + _table(counts, splits))
    most = max(1, *(sum(by_split.values()) for by_split in counts.values()))
    rows = "".join(_class_row(name, by_split, splits, most) for name, by_split in counts.items())
    keys = "".join(f'<span class="key split-{n}"><i></i>{text(s)}</span>' for n, s in enumerate(splits))
    return _classes_section(figure(caption, f'<ol class="bars stacked">{rows}</ol>', "ranking", keys))


def _classes_section(body: str) -> str:
    return f"""
<section class="part" id="classes" aria-labelledby="classes-title">
  <p class="name">The set</p>
  <h2 id="classes-title">How many pictures of what</h2>
  {body}
</section>"""


def _class_row(name: str, by_split: dict[str, int], splits: list[str], most: int) -> str:
    parts = "".join(
        f'<i class="split-{n}" style="--s:{by_split[split] / most:.4f}" title="{text(split)}: {by_split[split]:,}"></i>'
        for n, split in enumerate(splits)
    )
    said = sum(by_split.values())
    return f'<li><span>{text(name)}</span> <span class="stack">{parts}</span> <span>{said:,}</span></li>'


def _table(counts: dict[str, dict[str, int]], splits: list[str]) -> str:
    head = "".join(f'<th scope="col">{text(split)}</th>' for split in splits)
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>{"".join(f"<td>{by[split]:,}</td>" for split in splits)}</tr>'
        for name, by in counts.items()
    )
    table = (
        f'<table class="facts"><thead><tr><th scope="col">class</th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )
    return f'<details><summary>As a table</summary><div class="scroll tall" tabindex="0">{table}</div></details>'
