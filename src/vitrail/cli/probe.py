"""`vitrail probe MODEL DATA`."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from vitrail.cli.answers import TASK, Complaints, at_least_one, counting
from vitrail.cli.evaluate import BY_CHOICE, open_with_splits
from vitrail.cli.output import console, print_json, table
from vitrail.errors import ConfigError, FileError

if TYPE_CHECKING:
    from vitrail.data.examples import Examples
    from vitrail.evaluate.probing import Labelled, Probing
    from vitrail.predict.predictor import Predictor
    from vitrail.train.features import Reading

HELD_OUT = 0.2  # of the pictures, to report on, where the data have no splits


def command(
    model: str,
    data: str,
    /,
    *,
    shots: str = "1,5,10,25",
    seeds: int = 3,
    k: int = 20,
    out: Path | None = None,
    json: bool = False,
    batch_size: int = 16,
    threads: int = 2,
) -> None:
    """How good a model's features are, without training it: few-shot, linear and nearest-neighbour classifiers.

    The features of all pictures are computed once and kept in the cache; the classifiers are closed forms. The classes
    of the data need not be the model's.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    data
        A folder with a folder for each class, a CSV or Parquet table, tar shards, arrays, or a known name.
    shots
        Pictures of each class that the few-shot classifiers see, separated by commas.
    seeds
        How often those pictures are drawn; the mean and the spread are reported.
    k
        Neighbours that vote.
    out
        Also write a page (a name that ends in .html), or a folder with the page and the JSON document.
    json
        Print one JSON document.
    batch_size
        Pictures that the model answers at once.
    threads
        Threads that read pictures.
    """
    from vitrail.evaluate.probing import probe_features
    from vitrail.predict.predictor import load

    at_least_one(seeds=seeds, k=k, batch_size=batch_size, threads=threads)
    wanted = _numbers(shots)
    predictor, complaints = load(model), Complaints()
    examples, on = _to_report_on(open_with_splits(model, data))
    found = _measured(predictor, examples, on, complaints, batch_size=batch_size, threads=threads)
    classes, val = len(examples.classes), found.get("val") if on != "val" else None
    probing = probe_features(found["train"], found[on], classes, val=val, shots=wanted, seeds=range(seeds), k=k)
    document = {
        "model": model,
        "data": data,
        "split": on,
        "pictures": {name: len(part.labels) for name, part in found.items()},
        "unreadable": complaints.count,
        "notes": [*predictor.notes, *examples.notes, *_too_few(found["train"], classes, max(wanted))],
        **probing.to_dict(),
    }
    _give(probing, document, json, out)


def _numbers(words: str) -> list[int]:
    try:
        numbers = sorted({int(word) for word in words.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise ConfigError(f"--shots {words!r} are no numbers of pictures", fix="give them as 1,5,10,25")
    return numbers


def _to_report_on(examples: Examples) -> tuple[Examples, str]:
    """The pictures and the split to report on; a part is held out for that where all are to train on."""
    from vitrail.data.split import split_examples

    if examples.multi_label:
        fix = "give data with one label a picture"
        raise ConfigError("probing tells one class a picture, and these have several", where=examples.name, fix=fix)
    examples.split("train")
    if set(examples.splits) == {"train"}:
        examples = split_examples(examples, val=HELD_OUT)
    return examples, next(name for name in BY_CHOICE if name in examples.splits)


def _measured(
    predictor: Predictor, examples: Examples, on: str, complaints: Complaints, **pace: int
) -> dict[str, Labelled]:
    """The features of the splits that are needed."""
    from vitrail.train.features import Reading

    splits = [name for name in examples.splits if name in ("train", "val", on)]
    with counting(sum(len(examples.split(name)) for name in splits)) as progress:
        reading = Reading(complaints, lambda n: progress.advance(TASK, n), **pace)
        return {name: _labelled(predictor, examples, name, reading) for name in splits}


def _labelled(predictor: Predictor, examples: Examples, split: str, reading: Reading) -> Labelled:
    """The features of the pictures of a split that have a label."""
    from vitrail.data.examples import NO_LABEL
    from vitrail.evaluate.probing import Labelled
    from vitrail.train.features import features

    indices = examples.split(split)
    indices = indices[examples.targets[indices] != NO_LABEL]
    if not len(indices):
        raise FileError(f"the split {split!r} has no labelled picture", where=examples.name, fix="add labels")
    said = features(predictor, examples, indices, reading)
    return Labelled(said.values, examples.targets[said.indices])


def _too_few(train: Labelled, classes: int, shots: int) -> list[str]:
    import numpy as np

    short = int((np.bincount(train.labels, minlength=classes) < shots).sum())
    if not short:
        return []
    who = "1 class has" if short == 1 else f"{short} classes have"
    return [f"{who} fewer than {shots} training pictures; all there are were taken"]


def _give(found: Probing, document: dict[str, Any], as_json: bool, out: Path | None) -> None:
    if out is not None:
        _write(found, document, out)
    if as_json:
        print_json(document)
    else:
        _show(found, document, out)


def _write(found: Probing, document: dict[str, Any], out: Path) -> None:
    from vitrail.report.probe_page import page
    from vitrail.weights.durable import write_text

    told = {name: document[name] for name in ("model", "data", "split", "notes")}
    made = page(found, **told, pictures=document["pictures"][document["split"]])
    if out.suffix == ".html":
        write_text(out, made)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot be made: {error.strerror}", where=out, fix="choose another --out") from error
    write_text(out / "probe.html", made)
    write_text(out / "probe.json", json_.dumps(document, indent=1) + "\n")


def _show(found: Probing, document: dict[str, Any], out: Path | None) -> None:
    from vitrail.report.probe_page import rows

    screen = console()
    counts, split = document["pictures"], document["split"]
    screen.print(Text(f"{document['model']} on {document['data']}", style="bold"), soft_wrap=True)
    screen.print(Text(f"learned from {counts['train']:,} pictures, tried on {counts[split]:,} of {split}", style="dim"))
    for note in document["notes"]:
        screen.print(Text(note, style="dim"))
    shown = table("", "classifier on frozen features", "accuracy", right=("accuracy",))
    for name, value in rows(found):
        shown.add_row(name, value)
    screen.print(shown)
    if out is not None:
        screen.print(Text(str(out)))
