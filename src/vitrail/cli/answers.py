"""Answers one by one: lines for people, JSON and CSV for programs. Nothing is kept, so any number of them will do."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from vitrail.errors import ConfigError, ImageError, one_line

if TYPE_CHECKING:
    from vitrail.predict.answers import Prediction

BAR, NAME = 10, 40
UNKNOWN = "unknown ({}?)"
TASK = TaskID(0)


class Writer(Protocol):
    """`begin`, then `write` for each picture, then `end`."""

    def begin(self) -> None: ...
    def write(self, name: str, found: Prediction | ImageError) -> None: ...
    def end(self) -> None: ...


class Lines:
    """One line a picture: name, label, how sure, and what else it could be. Bad ones are told on stderr by others."""

    def __init__(self, out: Console, classes: Sequence[str]) -> None:
        self.out = out
        self.label_width = min(28, max(map(len, classes), default=0) + len(UNKNOWN.format("")))
        self.name_width = min(NAME, out.width // 3)

    def begin(self) -> None:
        pass

    def write(self, name: str, found: Prediction | ImageError) -> None:
        if isinstance(found, ImageError):
            return
        said = Text(", ".join(found.labels)) if found.labels else Text(UNKNOWN.format(found.label), "yellow")
        said.pad_right(max(0, self.label_width - len(said)))
        others = ", ".join(f"{label} {100 * p:.1f} %" for label, p in found.top[1:])
        filled = round(BAR * found.probability)
        line = Text.assemble(self._shown(name), "  ", said, "  ")
        line.append("━" * filled, "cyan").append("─" * (BAR - filled), "dim")
        line.append(f" {100 * found.probability:5.1f} %").append(f"  {others}" if others else "", "dim")
        self.out.print(line, soft_wrap=True)

    def end(self) -> None:
        pass

    def _shown(self, name: str) -> str:
        """The end of a long name, which tells more than its beginning; on a terminal only."""
        plain = one_line(name)
        if self.out.is_terminal and len(plain) > self.name_width:
            plain = "…" + plain[1 - self.name_width :]
        return plain.ljust(self.name_width)


class Json:
    """One array, an object a line: `file` with the prediction, or with an `error`."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.before = file, "\n"

    def begin(self) -> None:
        self.file.write("[")

    def write(self, name: str, found: Prediction | ImageError) -> None:
        said = {"error": str(found)} if isinstance(found, ImageError) else found.to_dict()
        self.file.write(self.before + json.dumps({"file": name, **said}))  # ASCII keeps names that are not Unicode
        self.before = ",\n"

    def end(self) -> None:
        self.file.write("\n]\n")


class Csv:
    """A row a picture; the labels that a picture has are separated by `|`, as in a table to train from."""

    def __init__(self, file: TextIO, top: int) -> None:
        self.rows, self.top = csv.writer(file, lineterminator="\n"), top

    def begin(self) -> None:
        more = [f"{name}_{place}" for place in range(2, self.top + 1) for name in ("label", "probability")]
        self.rows.writerow(["file", "label", "probability", "unknown", "labels", "error", *more])

    def write(self, name: str, found: Prediction | ImageError) -> None:
        if isinstance(found, ImageError):
            self.rows.writerow([name, "", "", "", "", str(found), *[""] * (2 * self.top - 2)])
            return
        more = [cell for label, probability in found.top[1:] for cell in (label, repr(probability))]
        said = [found.label, repr(found.probability), str(found.unknown).lower(), "|".join(found.labels), ""]
        self.rows.writerow([name, *said, *more, *[""] * (2 * self.top - 2 - len(more))])

    def end(self) -> None:
        pass


class Complaints:
    """Names each fault on stderr, one line each, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: Exception) -> None:
        self.count += 1
        print("vitrail: " + one_line(str(error)), file=sys.stderr)


def counting(total: int | None = None, *, hidden: bool = False) -> Progress:
    """How many pictures are done (`advance(TASK)`): on stderr, if that is a terminal, and gone when all are."""
    done = TextColumn("{task.completed:,.0f}") if total is None else MofNCompleteColumn()
    columns = done, TextColumn("pictures"), TimeElapsedColumn()
    hidden = hidden or not sys.stderr.isatty()
    progress = Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
    assert progress.add_task("", total=total) == TASK
    return progress


def at_least_one(**counts: int) -> None:
    """Options that count something."""
    for name, value in counts.items():
        if value < 1:
            option = "--" + name.replace("_", "-")
            raise ConfigError(f"{option} {value} must be at least 1", fix=f"leave {option} out")
