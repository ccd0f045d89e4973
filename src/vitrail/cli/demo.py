"""`vitrail demo`."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from vitrail.cli.answers import Lines
from vitrail.cli.output import console, table
from vitrail.errors import EXIT_INTERRUPTED, EXIT_OK, FileError, one_line

if TYPE_CHECKING:
    from vitrail.data.examples import Examples
    from vitrail.train.job import Result
    from vitrail.train.settings import Budget

KNOWN = "fashion-mnist"
PARTS = 5
SHOWN = 8  # pictures that are predicted at the end


def command(*, minutes: float = 4.0, out: Path = Path("runs/demo")) -> int:
    """The main job with nothing of your own: get pictures, look for faults, train, evaluate, predict.

    The pictures are fashion-mnist's, ten kinds of clothes. Where they cannot be fetched, shapes are drawn instead.

    Parameters
    ----------
    minutes
        How long training may take.
    out
        The folder of the run. Where that is taken, a number is added to its name.
    """
    from vitrail.train.loop import Interrupted
    from vitrail.train.run import new_folder
    from vitrail.train.settings import Budget

    budget = Budget(minutes=minutes)
    folder = new_folder(out.name, out.parent) if out.exists() else out
    pictures = folder.with_name(f"{folder.name}-pictures")
    screen = console()
    _heading(screen, 1, "Pictures")
    examples = _get(screen, pictures)
    _heading(screen, 2, "Doctor: what is wrong with them?")
    _examine(screen, examples)
    _heading(screen, 3, f"Training, {minutes:g} minutes")
    try:
        result = _train(screen, examples, folder, budget)
    except Interrupted:
        _say(screen, f"interrupted; everything is saved. Go on with: vitrail train --resume {shlex.quote(str(folder))}")
        return EXIT_INTERRUPTED
    _heading(screen, 4, "How good is it?")
    _evaluate(screen, result)
    _heading(screen, 5, "Some test pictures, as files")
    files = _write(examples, pictures)
    _predict(screen, folder, files)
    _next(screen, examples.name, folder, files[0].path)
    return EXIT_OK


def _heading(screen: Console, number: int, words: str) -> None:
    screen.print(Text(f"\n{number}/{PARTS} {words}", style="bold cyan"))


def _say(screen: Console, line: str, style: str = "") -> None:
    screen.print(Text(one_line(line), style=style), soft_wrap=True)


def _get(screen: Console, pictures: Path) -> Examples:
    from vitrail.data import catalog
    from vitrail.data.drawn import draw_shapes
    from vitrail.data.sources import open_data

    try:
        examples = catalog.get(KNOWN, say=lambda line: _say(screen, line, "dim"))
    except FileError:
        _say(screen, f"They cannot be had (`vitrail data {KNOWN}` says why), so shapes are drawn instead.", "yellow")
        examples = open_data(draw_shapes(pictures / "shapes.npz"), val=0.0)
    counts = ", ".join(f"{len(indices):,} {split}" for split, indices in examples.splits.items())
    _say(screen, f"{examples.name}: {counts} pictures of {len(examples.classes)} classes")
    _say(screen, ", ".join(examples.classes), "dim")
    return examples


def _examine(screen: Console, examples: Examples) -> None:
    from vitrail.data.doctor import examine

    findings = examine(examples, quick=True).findings
    for finding in findings:
        _say(screen, f"{finding.severity}: {finding.what}")
    if not findings:
        _say(screen, "Nothing wrong was found.", "green")


def _train(screen: Console, examples: Examples, folder: Path, budget: Budget) -> Result:
    from vitrail.train.job import Wishes, plan, train
    from vitrail.train.progress import Display

    started = time.monotonic()
    planned = plan(Wishes(data=examples.name, budget=budget), examples)
    for name, value, _ in planned.settings.summary(planned.reasons):
        _say(screen, f"{name:<12}{value}", "dim")
    with Display(screen) as display:
        return train(planned, folder, display, started=started)


def _evaluate(screen: Console, result: Result) -> None:
    outcome, evaluation = result.outcome, result.outcome.evaluation
    shown = table(f"On {outcome.pictures} {outcome.split} pictures, after {result.seconds / 60:.1f} minutes", "", "")
    shown.show_header = False
    for name, value in evaluation.rows():
        shown.add_row(Text(name, style="dim"), Text(value))
    screen.print(shown)
    for mistake in evaluation.confusions(1):
        _say(screen, f"Most often, {mistake.true!r} is taken for {mistake.predicted!r}: {mistake.count:,} times.")


class Picture(NamedTuple):
    path: Path
    label: str


def _write(examples: Examples, folder: Path) -> list[Picture]:
    """A test picture of each of the first classes, as a file that is called by what is on it."""
    import numpy as np
    from PIL import Image

    from vitrail.data.placing import placing

    test = examples.split("test")
    labels, places = np.unique(examples.targets[test], return_index=True)
    files = []
    for label, place in zip(labels[:SHOWN].tolist(), places.tolist(), strict=False):
        name = examples.classes[label]
        path = folder / (re.sub(r"[^a-z0-9]+", "-", name.lower()) + ".png")
        pixels = examples.pictures.read(int(test[place]))
        with placing(path) as temporary:
            Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(temporary, "PNG")
        files.append(Picture(path, name))
    return files


def _predict(screen: Console, folder: Path, files: list[Picture]) -> None:
    from vitrail.predict.predictor import load

    predictor = load(folder)
    lines, right, unknown = Lines(screen, predictor.classes), 0, 0
    for file in files:
        answer = predictor.predict(file.path, top=3)
        lines.write(file.path.name, answer)
        right += not answer.unknown and answer.label == file.label
        unknown += answer.unknown
    unsure = f", of {unknown} it is not sure" if unknown else ""
    _say(screen, f"{right} of {len(files)} are right{unsure}; each file is called by what is on it.")


def _next(screen: Console, data: str, folder: Path, picture: Path) -> None:
    rows = (
        (f"vitrail predict {_quoted(folder)} {_quoted(picture)}", "what is on a picture"),
        (f"vitrail evaluate {_quoted(folder)} {_quoted(data)}", "every figure, and what is confused"),
        ("vitrail train PHOTOS --minutes 20", "your own pictures, in a folder for each class"),
    )
    screen.print()
    _say(screen, f"The report, to open in a browser: {folder / 'report.html'}", "bold")
    _say(screen, "What to type next:")
    for line, why in rows:
        screen.print(Text.assemble("  ", line, (f"  # {why}", "dim")), soft_wrap=True)


def _quoted(path: str | Path) -> str:
    return shlex.quote(str(path))
