"""`vitrail evaluate MODEL DATA`."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from vitrail.cli.answers import TASK, Complaints, at_least_one, counting
from vitrail.cli.output import console, print_json, table
from vitrail.cli.predict import Engine
from vitrail.errors import FileError

if TYPE_CHECKING:
    from vitrail.data.examples import Examples
    from vitrail.evaluate.evaluation import Evaluation

BY_CHOICE = ("test", "val", "train")  # the first of these that there is


def command(
    model: str,
    data: str,
    /,
    *,
    split: str | None = None,
    json: bool = False,
    out: Path | None = None,
    mirror: bool = False,
    engine: Engine | None = None,
    batch_size: int = 16,
    threads: int = 2,
    seed: int = 0,
) -> None:
    """How good a model is on labelled pictures: accuracy and how sure that is, calibration, classes, confusions.

    Pictures are read and answered as `vitrail predict` does it. Those that cannot be read are named and left out.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    data
        A folder with a folder for each class, a CSV or Parquet table, tar shards, arrays, or a known name.
    split
        train, val or test. Left out: test where there is one, else val, else train, which is everything where the data
        have no splits. With a run and the data it was trained on, the splits are the run's.
    json
        Print one JSON document.
    out
        Also write the JSON document to this file.
    mirror
        Also look at each picture the other way round, and take the mean.
    engine
        What computes, as for `vitrail predict`.
    batch_size
        Pictures that the model answers at once.
    threads
        Threads that read pictures.
    seed
        Of the bootstrap behind the interval of the balanced accuracy.
    """
    from vitrail.deploy.engines import load_with
    from vitrail.predict.examples import ask_examples, evaluation_of, match_classes

    at_least_one(batch_size=batch_size, threads=threads)
    predictor, complaints = load_with(model, engine, mirror=mirror), Complaints()
    examples = match_classes(open_with_splits(model, data), predictor)
    chosen = split or next(name for name in BY_CHOICE if name in examples.splits)
    with counting(len(examples.split(chosen))) as progress:
        pace = {"batch_size": batch_size, "threads": threads}
        answers = ask_examples(predictor, examples, chosen, complaints, lambda: progress.advance(TASK), **pace)
    found = evaluation_of(predictor, answers, seed)
    notes = [*predictor.notes, *examples.notes]
    about = {"model": model, "data": data, "split": chosen, "unreadable": complaints.count, "notes": notes}
    _give(found, about | {"evaluation": found.to_dict()}, json, out)


def open_with_splits(model: str, data: str) -> Examples:
    """The pictures with the splits they come with; with those of the run, if they are the run's pictures."""
    from vitrail.data.sources import open_data

    examples = open_data(data, val=0.0)
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    written = folder / "split.csv"
    if not written.is_file():
        return examples
    try:
        return open_data(data, split_file=written)
    except FileError:
        return examples.replace(notes=(*examples.notes, "not the data of the run, so its split is not used"))


def _give(found: Evaluation, document: dict[str, Any], as_json: bool, out: Path | None) -> None:
    if out is not None:
        from vitrail.weights.durable import write_text

        write_text(out, json_.dumps(document, indent=1) + "\n")
    if as_json:
        print_json(document)
    else:
        _show(found, document)


def _show(found: Evaluation, document: dict[str, Any]) -> None:
    out = console()
    out.print(
        Text(f"{document['model']} on {document['data']}, split {document['split']}", style="bold"), soft_wrap=True
    )
    for note in document["notes"]:
        out.print(Text(note, style="dim"))
    figures = table("", "", "")
    figures.show_header = False
    for name, value in found.rows():
        figures.add_row(Text(name, style="dim"), Text(value))
    out.print(figures)
    worst = table("\nLeast often recognised", "class", "recognised", "pictures", right=("recognised", "pictures"))
    for score in found.worst_classes():
        worst.add_row(Text(score.name), f"{100 * score.recall:.1f} %", f"{score.support:,}")
    out.print(worst)
    if mistakes := found.confusions():
        confused = table("\nMost often confused", "true", "taken for", "pictures", right=("pictures",))
        for mistake in mistakes:
            confused.add_row(Text(mistake.true), Text(mistake.predicted), f"{mistake.count:,}")
        out.print(confused)
    if bad := document["unreadable"]:
        said = "1 picture could not be read and is" if bad == 1 else f"{bad:,} pictures could not be read and are"
        out.print(Text(f"{said} left out", style="yellow"))
