"""What it was made from: the data, the settings and why, and the commands to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vitrail.page.document import text
from vitrail.report import charts
from vitrail.report.facts import Story
from vitrail.report.section import Section, bar, figure
from vitrail.report.words import count, listed

LISTED_CLASSES = 24  # up to which each has a line of its own
NAMED_FILES = 200  # of those left out
_SPLIT_NAMES = {"train": "training", "val": "validation", "test": "test"}


def data_section(facts: Story) -> Section:
    data = facts.data
    parts = [f"{count(number, 'picture')} for {_SPLIT_NAMES.get(name, name)}" for name, number in data.pictures.items()]
    words = f"{data.name}: {listed(parts)}." if parts else f"{data.name}."
    kinds = {1: "grey", 3: "colour"}
    about = [data.sizes, kinds.get(data.channels or 0, f"{data.channels} channels") if data.channels else ""]
    if any(about):
        words += f" {', '.join(filter(None, about)).capitalize()}."
    notes = "".join(f"<li>{text(note)}</li>" for note in data.notes)
    body = _distribution(facts) + (f'<ul class="notes">{notes}</ul>' if notes else "") + _left_out(facts)
    return Section("Data", "What it learned from", words, body)


def _distribution(facts: Story) -> str:
    """Pictures of each class for training, or in whatever split there is."""
    split = "train" if "train" in facts.data.counts else next(iter(facts.data.counts), None)
    if split is None or not facts.classes:
        return ""
    numbers = [int(number) for number in facts.data.counts[split]]
    caption = f"Pictures of each class for {_SPLIT_NAMES.get(split, split)}"
    if len(numbers) > LISTED_CLASSES:
        drawn = charts.column_chart(caption, facts.classes, numbers, "pictures", f"{len(numbers):,} classes")
        return figure(caption, drawn, "chart wide")
    most = max(1, *numbers)
    items = "".join(
        f"<li><span>{text(name)}</span> {bar(number / most)} <span>{number:,}</span></li>"
        for name, number in zip(facts.classes, numbers, strict=True)
    )
    return figure(caption, f'<ol class="bars">{items}</ol>', "ranking")


def _left_out(facts: Story) -> str:
    left = facts.data.left_out
    if not left:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(why)}</td></tr>' for name, why in left[:NAMED_FILES]
    )
    more = f"<p class='note'>and {len(left) - NAMED_FILES:,} more</p>" if len(left) > NAMED_FILES else ""
    table = f'<div class="scroll tall" tabindex="0"><table class="facts"><tbody>{rows}</tbody></table></div>'
    return f"<details><summary>{count(len(left), 'file')} left out</summary>{table}{more}</details>"


# ---- settings -----------------------------------------------------------------------------------------------------


def settings_section(facts: Story) -> Section | None:
    """Automatic choices with their reasons in the open, all other settings to unfold."""
    values = dict(_flat(facts.config))
    if not values and not facts.reasons:
        return None
    chosen = "".join(
        f'<tr><th scope="row">{text(key)}</th><td>{text(_value(facts.config, key))}</td>'
        f'<td class="why">{text(why)}</td></tr>'
        for key, why in facts.reasons.items()
    )
    others = "".join(
        f'<tr><th scope="row">{text(key)}</th><td>{text(shown(value))}</td></tr>'
        for key, value in values.items()
        if key not in facts.reasons
    )
    words = "Complete: the run's config.yaml holds the same values and repeats it."
    if chosen:
        words = f"What was not told was chosen for this data and this time, for these reasons. {words}"
        head = '<thead><tr><th scope="col">Setting</th><th scope="col">Chosen</th><th scope="col">Why</th></tr></thead>'
        chosen = f'<div class="scroll" tabindex="0"><table class="facts">{head}<tbody>{chosen}</tbody></table></div>'
    if others:
        table = f'<div class="scroll" tabindex="0"><table class="facts"><tbody>{others}</tbody></table></div>'
        chosen += f"<details><summary>All other settings</summary>{table}</details>"
    return Section("Settings", "How it was set up", words, chosen)


def _flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Sections inside sections as `optim.lr`."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _value(config: Mapping[str, Any], key: str) -> str:
    """The value of `optim.lr`; empty where the key names a whole section, or something that is no setting."""
    place: Any = config
    for part in key.split("."):
        place = place.get(part) if isinstance(place, Mapping) else None
    return "" if place is None or isinstance(place, Mapping) else shown(place)


def shown(value: Any) -> str:
    """A setting as a person would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)


# ---- commands -----------------------------------------------------------------------------------------------------


def command_section(facts: Story) -> Section | None:
    if not facts.commands:
        return None
    items = "".join(
        f'<li><h3>{text(name)}</h3><pre tabindex="0"><code>{text(line)}</code></pre>'
        f'<button type="button" class="copy" hidden>Copy<span class="unseen"> {text(name)}</span></button></li>'
        for name, line in facts.commands
    )
    return Section("Use it", "What to do next", "", f'<ul class="commands">{items}</ul>')
