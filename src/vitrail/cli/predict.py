"""`vitrail predict MODEL IMAGES...`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from cyclopts import Parameter

from vitrail.cli.answers import TASK, Complaints, Csv, Json, Lines, Writer, at_least_one, counting
from vitrail.cli.output import console
from vitrail.errors import EXIT_BAD_INPUT, EXIT_OK, ConfigError, ImageError, did_you_mean

if TYPE_CHECKING:
    from vitrail.predict.answers import Prediction

Form = Literal["lines", "json", "csv"]
Engine = Literal["auto", "torch", "compile", "onnx", "openvino"]
OPTIONS = ("--top", "--json", "--csv", "--out", "--null", "--mirror", "--engine", "--batch-size", "--threads")


def command(
    model: str,
    /,
    *images: Annotated[str, Parameter(allow_leading_hyphen=True)],
    top: int = 3,
    json: bool = False,
    csv: bool = False,
    out: Path | None = None,
    null: bool = False,
    mirror: bool = False,
    engine: Engine | None = None,
    batch_size: int = 16,
    threads: int = 2,
) -> int:
    """What is on pictures, any number of them. Those that cannot be read are named on stderr; the others are answered.

    The exit code is 0 if any picture could be read, and 3 if none could.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    images
        Picture files, folders (with all below), patterns in quotes ('photos/**/*.jpg'), or - for paths from stdin.
    top
        How many of the most probable classes to give.
    json
        Print one JSON document: an array, one object a line, with `file` and the prediction or an `error`.
    csv
        Print a CSV table.
    out
        Write to this file instead, as its name ends: .json or .csv.
    null
        Paths from stdin end with a zero byte, as `find -print0` writes them.
    mirror
        Also look at each picture the other way round, and take the mean.
    engine
        What computes: torch, compile, onnx or openvino, the last two after an export in memory that is compared first;
        auto measures and takes the fastest. Left out: what the file is made for.
    batch_size
        Pictures that the model answers at once.
    threads
        Threads that read pictures.
    """
    form = _form(json, csv, out)
    at_least_one(top=top, batch_size=batch_size, threads=threads)
    _check_words(images)
    from vitrail.deploy.engines import load_with

    predictor, complaints = load_with(model, engine, mirror=mirror), Complaints()
    for note in predictor.notes:
        print(f"vitrail: note: {note}", file=sys.stderr)
    sources = _sources(images, null, complaints)
    answers = predictor.predict_many(sources, batch_size=batch_size, threads=threads, top=top)
    good = _write_all(answers, complaints, _maker(form, predictor.classes, top), out)
    if complaints.count:
        print(f"vitrail: {good:,} predicted, {complaints.count:,} could not be read", file=sys.stderr)
    return EXIT_OK if good else EXIT_BAD_INPUT


def _maker(form: Form, classes: tuple[str, ...], top: int) -> Callable[[TextIO], Writer]:
    makers: dict[Form, Callable[[TextIO], Writer]] = {
        "lines": lambda _: Lines(console(), classes),
        "json": Json,
        "csv": lambda file: Csv(file, min(top, len(classes))),
    }
    return makers[form]


def _check_words(images: tuple[str, ...]) -> None:
    if not images:
        fix = "give files, folders, 'patterns' in quotes, or - for paths from stdin"
        raise ConfigError("no pictures given", fix=fix)
    for word in images:
        if word.startswith("-") and word != "-":
            near = did_you_mean(word, OPTIONS)
            raise ConfigError(f"there is no option {word}", fix=near or f"write ./{word} if it is a file")


def _form(json: bool, csv: bool, out: Path | None) -> Form:
    if json and csv:
        raise ConfigError("--json and --csv are two forms of one answer", fix="choose one")
    if json or csv:
        return "json" if json else "csv"
    if out is None:
        return "lines"
    forms: dict[str, Form] = {".json": "json", ".csv": "csv"}
    if out.suffix.lower() not in forms:
        raise ConfigError(f"--out {out} ends in no known form", fix="use .json or .csv, or say --json or --csv")
    return forms[out.suffix.lower()]


def _sources(images: tuple[str, ...], null: bool, complaints: Complaints) -> Iterator[str]:
    from vitrail.predict.find import find_pictures, read_paths

    for word in images:
        if word == "-":
            yield from find_pictures(read_paths(sys.stdin.buffer, null=null), complaints, patterns=False)
        else:
            yield from find_pictures([word], complaints)


def _write_all(
    answers: Iterator[tuple[str, Prediction | ImageError]],
    complaints: Complaints,
    make: Callable[[TextIO], Writer],
    out: Path | None,
) -> int:
    """To stdout, or to a file that is there whole or not at all. How many pictures could be read."""
    if out is None:
        return _write(answers, complaints, make(sys.stdout), shown=sys.stdout.isatty())
    from vitrail.weights.durable import write_atomically

    good = 0

    def save(temporary: Path) -> None:
        nonlocal good
        with temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            good = _write(answers, complaints, make(file), shown=False)

    write_atomically(out, save)
    return good


def _write(
    answers: Iterator[tuple[str, Prediction | ImageError]], complaints: Complaints, writer: Writer, *, shown: bool
) -> int:
    """A count runs on the terminal, unless the answers themselves are `shown` there."""
    good = 0
    with counting(hidden=shown) as progress:
        writer.begin()
        for name, found in answers:
            writer.write(name, found)
            if isinstance(found, ImageError):
                complaints(found)
            else:
                good += 1
            progress.advance(TASK)
        writer.end()
    return good
