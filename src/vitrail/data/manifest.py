"""A table that lists pictures: CSV or Parquet with a path, a label, and if wanted a split and a group a row."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vitrail.data.examples import SPLITS, Examples, FilePictures
from vitrail.data.labels import SPLIT_WORDS, Row, assemble, count, listed, numbered
from vitrail.errors import FileError, MissingExtra, did_you_mean

COLUMNS = {
    "path": ("path", "file", "filename", "image", "image_path"),
    "label": ("label", "class", "category", "labels"),
    "split": ("split",),
    "group": ("group",),
}
TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".parquet"})


class _Line(NamedTuple):
    """One row of the table as text; `number` is where a person finds it."""

    number: int
    cells: list[str]


class _Entry(NamedTuple):
    """One row, understood."""

    number: int
    path: Path
    row: Row


def open_manifest(path: Path, *, labelled: bool = True) -> Examples:
    """The pictures that a table lists. Paths are relative to the table; `cat|dog` is a picture with both labels."""
    header, lines, separators = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    columns = _find_columns(path, header, labelled)
    if not lines:
        raise FileError("a header but no rows", where=path, fix="add a row a picture")
    entries = [_understand(path, line, columns, separators) for line in lines]
    _check_splits(path, entries)
    kept, notes = _without_repeats(path, entries)
    _check_files(path, kept)
    multi_label = any(len(entry.row.labels) > 1 for entry in kept)
    if multi_label:
        notes.append("some pictures have several labels, so each label is a question of its own (multi-label)")
    return assemble(
        str(path),
        FilePictures([entry.path for entry in kept]),
        [entry.row for entry in kept],
        sort=numbered,
        multi_label=multi_label,
        notes=notes,
    )


def is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte: no file can have it
        return False


# Text


def _read_csv(path: Path) -> tuple[list[str], list[_Line], str]:
    """Header, rows, and what separates labels in a cell."""
    text = _text(path)
    delimiter = _delimiter(text.lstrip("\r\n").partition("\n")[0])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append(_Line(reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        fix = "check the quotes: each one that opens a cell must close it"
        raise FileError(f"cannot be read as CSV ({error})", where=_at(path, reader.line_num), fix=fix) from error
    if not lines:
        raise FileError("the file is empty", where=path, fix="start with the line path,label and add a row a picture")
    header, *rows = lines
    for line in rows:
        if len(line.cells) != len(header.cells):
            raise FileError(
                f"{count(len(line.cells), 'cell')} where the header has {len(header.cells)}",
                where=_at(path, line.number),
                fix=f"put cells that hold {delimiter!r} in quotes, and give each row a cell a column",
            )
    return header.cells, rows, "|" if delimiter == ";" else "|;"


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror})", where=path, fix="check its permissions") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError("this is UTF-16", where=path, fix="save it as 'CSV UTF-8'")
    if b"\0" in data:
        fix = "save it again as CSV; a zero byte is never part of text"
        raise FileError("a zero byte", where=_at(path, 1 + data[: data.index(b"\0")].count(b"\n")), fix=fix)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = 1 + data[: error.start].count(b"\n")
        raise FileError("not UTF-8 text", where=_at(path, row), fix="save it as 'CSV UTF-8'") from error


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _at(path: Path, row: int) -> str:
    return f"{path}, row {row}"


# Parquet


def _read_parquet(path: Path) -> tuple[list[str], list[_Line], str]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "data") from error
    try:
        file = parquet.ParquetFile(path)
        wanted = [name for name in file.schema_arrow.names if name.strip().lower() in _known_words()]
        table = file.read(columns=wanted)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"cannot be read as Parquet ({reason})", where=path, fix="write it again") from error
    columns = [[_cell(path, name, value) for value in table[name].to_pylist()] for name in wanted]
    lines = [_Line(number, list(cells)) for number, cells in enumerate(zip(*columns, strict=True), 1)]
    return wanted or file.schema_arrow.names, lines, "|"


def _known_words() -> set[str]:
    return {word for words in COLUMNS.values() for word in words}


def _cell(path: Path, column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "|".join(str(item) for item in value)
    if isinstance(value, str | int):
        return str(value).strip()
    raise FileError(
        f"column {column!r} holds {type(value).__name__}, not text", where=path, fix="write paths and labels as text"
    )


# Meaning


def _find_columns(path: Path, header: Sequence[str], labelled: bool) -> dict[str, int]:
    """Which column is what: by its own name, else by the only other name that is there."""
    names = [name.strip().lower() for name in header]
    found = {}
    for meaning, words in COLUMNS.items():
        there = [word for word in words if word in names]
        chosen = there[:1] if words[0] in there else there
        if len(chosen) > 1 or any(names.count(word) > 1 for word in chosen):
            raise FileError(f"several columns for {meaning}: {listed(there)}", where=path, fix=f"name one {meaning!r}")
        if chosen:
            found[meaning] = names.index(chosen[0])
    needed = ("path", "label") if labelled else ("path",)
    for meaning in needed:
        if meaning not in found:
            fix = f"name one of its columns {meaning!r} (it has {listed(header, 8)})"
            raise FileError(f"no column {meaning!r}", where=path, fix=fix)
    return found if labelled else {meaning: place for meaning, place in found.items() if meaning != "label"}


def _understand(path: Path, line: _Line, columns: dict[str, int], separators: str) -> _Entry:
    cells = {meaning: line.cells[place] for meaning, place in columns.items()}
    where = _at(path, line.number)
    if not cells["path"]:
        raise FileError("no path", where=where, fix="write the path of the picture, or remove the row")
    labels = _labels(where, cells["label"], separators) if "label" in cells else ()
    split = _split(where, cells["split"]) if cells.get("split") else None
    picture = Path(os.path.normpath(path.parent / cells["path"]))
    return _Entry(line.number, picture, Row(labels, split, cells.get("group") or None))


def _labels(where: str, cell: str, separators: str) -> tuple[str, ...]:
    labels = [label.strip() for label in re.split(f"[{re.escape(separators)}]", cell)]
    if not all(labels):
        raise FileError("an empty label", where=where, fix="write the label, or remove the row")
    if any("\n" in label or "\r" in label for label in labels):
        raise FileError(f"a line break in the label {cell[:60]!r}", where=where, fix="check the quotes above this row")
    return tuple(dict.fromkeys(labels))


def _split(where: str, word: str) -> str:
    split = SPLIT_WORDS.get(word.lower())
    if split is None:
        raise FileError(f"unknown split {word!r}", where=where, fix=did_you_mean(word.lower(), SPLITS))
    return split


def _check_splits(path: Path, entries: Iterable[_Entry]) -> None:
    """All rows name a split, or none does."""
    named = {entry.row.split is not None: entry.number for entry in entries}
    if len(named) == 2:
        fix = "write train, val or test in every row, or in none"
        raise FileError("no split here, though other rows have one", where=_at(path, named[False]), fix=fix)


def _without_repeats(path: Path, entries: list[_Entry]) -> tuple[list[_Entry], list[str]]:
    first: dict[Path, _Entry] = {}
    for entry in entries:
        before = first.setdefault(entry.path, entry)
        if before.row != entry.row:
            meaning = next(m for m in ("labels", "split", "group") if getattr(before.row, m) != getattr(entry.row, m))
            raise FileError(
                f"{entry.path.name!r} again, but with another {meaning.removesuffix('s')} than in row {before.number}",
                where=_at(path, entry.number),
                fix="keep one of the two rows; a picture with several labels is written once, as cat|dog",
            )
    repeats = len(entries) - len(first)
    return list(first.values()), [f"{count(repeats, 'row')} listed twice, used once"] if repeats else []


def _check_files(path: Path, entries: list[_Entry]) -> None:
    missing = [entry for entry in entries if not is_there(entry.path)]
    if missing:
        shown = ", ".join(f"row {entry.number} {str(entry.path)!r}" for entry in missing[:5])
        more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
        raise FileError(
            f"{len(missing):,} of {count(len(entries), 'picture')} not found: {shown}{more}",
            where=path,
            fix=f"paths are taken from the folder of the table, {str(path.parent)!r}",
        )
