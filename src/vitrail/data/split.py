"""Validation and test pictures taken from the training pictures, by class and seed, groups kept whole; written down.

Who is taken depends on the seed and on the pictures' names below their common folder, never on the order of files or
on where the folder lies.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import SPLITS, Examples
from vitrail.data.labels import count, listed
from vitrail.data.placing import placing
from vitrail.errors import ConfigError, FileError

DEFAULT_VAL = 0.1
_COLUMNS = ["path", "label", "split", "group"]


def split_examples(examples: Examples, *, val: float | None = None, test: float = 0.0, seed: int = 0) -> Examples:
    """The same with the splits that are missing taken from train; one that is there is never changed.

    `val` and `test` are parts of the training pictures as they were; `None` means a tenth. Each class with two or more
    pictures (or groups) gives at least one, and none gives all.
    """
    parts = {"test": test, "val": DEFAULT_VAL if val is None else val}
    _check_parts(parts)
    wanted = {split: part for split, part in parts.items() if part > 0 and split not in examples.splits}
    if not wanted or "train" not in examples.splits:
        return examples
    train = examples.splits["train"]
    units = _units(examples, train, seed)
    sizes = _sizes(units)
    splits, notes = dict(examples.splits), list(examples.notes)
    for split, part in wanted.items():
        taken, units = _take(units, {label: size * part for label, size in sizes.items()})
        splits[split] = _indices(taken)
        by = "group and class" if examples.groups else "class" if examples.classes else "chance"
        notes.append(
            f"{split}: {len(splits[split]):,} of {count(len(train), 'training picture')}, by {by}, seed {seed}"
        )
    splits["train"] = _indices(units)
    ordered = {split: splits[split] for split in SPLITS if split in splits}
    return examples.replace(splits=ordered, notes=tuple(notes))


def write_split(path: str | os.PathLike[str], examples: Examples) -> None:
    """Which picture is in which split, as CSV: path, label, split (empty for one left out), group."""
    split_of = {int(index): split for split, indices in examples.splits.items() for index in indices}
    names, labels = _local_names(examples), _label_cells(examples)
    with (
        placing(Path(path)) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for index, name in enumerate(names):
            group = examples.groups[index] if examples.groups else ""
            writer.writerow([name, labels[index], split_of.get(index, ""), group])


def read_split(path: str | os.PathLike[str], examples: Examples) -> Examples:
    """The splits of a file that `write_split` wrote. It must name exactly these pictures with these labels."""
    written = _read_rows(Path(path))
    names = _local_names(examples)
    _check_same(path, "names other pictures", set(written), set(names))
    now = dict(zip(names, _label_cells(examples), strict=True))
    changed = [name for name, (label, _) in written.items() if label != now[name]]
    if changed:
        raise FileError(
            f"has other labels for {count(len(changed), 'picture')}: {listed(changed)}", where=path, fix="split anew"
        )
    places: dict[str, list[int]] = {split: [] for split in SPLITS}
    for index, name in enumerate(names):
        if split := written[name][1]:
            places[split].append(index)
    splits = {split: np.array(indices, np.int64) for split, indices in places.items() if indices}
    return examples.replace(splits=splits, notes=(*examples.notes, f"splits as written in {path}"))


# Taking


class _Unit(NamedTuple):
    """What is never torn apart: one picture, or all pictures of a group."""

    indices: list[int]
    labels: dict[int, int]  # class number: how many of its pictures have it
    draw: bytes  # random, the same for the same name and seed


def _units(examples: Examples, train: NDArray[np.int64], seed: int) -> list[_Unit]:
    """All units of train, those with the rarest label first, and then as drawn."""
    members: dict[str, list[int]] = {}
    names = examples.groups or _local_names(examples)
    for index in train.tolist():
        members.setdefault(names[index], []).append(index)
    labels = _labels(examples)
    units = [_Unit(indices, _tally(labels, indices), _draw(seed, name)) for name, indices in members.items()]
    sizes = _sizes(units)
    return sorted(units, key=lambda unit: (min(sizes[c] for c in unit.labels), unit.draw))


def _labels(examples: Examples) -> list[list[int]]:
    """The class numbers of each picture. One without any has the class -1, and is shared out like the others."""
    if not examples.multi_label:
        return [[label] for label in examples.targets.tolist()]
    return [np.flatnonzero(row).tolist() or [-1] for row in examples.targets]


def _tally(labels: list[list[int]], indices: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for index in indices:
        for label in labels[index]:
            found[label] = found.get(label, 0) + 1
    return found


def _sizes(units: Iterable[_Unit]) -> dict[int, int]:
    found: dict[int, int] = {}
    for unit in units:
        for label, number in unit.labels.items():
            found[label] = found.get(label, 0) + number
    return found


def _draw(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{name}".encode(errors="surrogateescape"), digest_size=8).digest()


def _take(units: Sequence[_Unit], wish: dict[int, float]) -> tuple[list[_Unit], list[_Unit]]:
    """Units that together come nearest to the wish for each class, and the rest, which keeps some of every class."""
    left = _sizes(units)
    missing, weight = dict(wish), {label: 1 / number**2 for label, number in wish.items()}
    taken, rest = list[_Unit](), list[_Unit]()
    for unit in units:
        # the change of (missing / wish)², class by class: taken where it falls for the rarest and for all together
        changes = {c: weight[c] * n * (n - 2 * missing[c]) for c, n in unit.labels.items()}
        rarest = max(changes, key=weight.__getitem__)
        take = changes[rarest] < 0 and sum(changes.values()) < 0 and _leaves_some(unit, left)
        (taken if take else rest).append(unit)
        if take:
            _move(unit, left, missing)
    _take_one_of_each(taken, rest, left, missing)
    return taken, rest


def _take_one_of_each(taken: list[_Unit], rest: list[_Unit], left: dict[int, int], missing: dict[int, float]) -> None:
    """A class of which nothing was taken gives its smallest unit, if it has another."""
    have = {label for unit in taken for label in unit.labels}
    for label in sorted(set(left) - have):
        able = [unit for unit in rest if label in unit.labels and _leaves_some(unit, left)]
        if able and label not in {c for unit in taken for c in unit.labels}:
            unit = min(able, key=lambda unit: (len(unit.indices), unit.draw))
            rest.remove(unit)
            taken.append(unit)
            _move(unit, left, missing)


def _leaves_some(unit: _Unit, left: dict[int, int]) -> bool:
    return all(left[label] > number for label, number in unit.labels.items())


def _move(unit: _Unit, left: dict[int, int], missing: dict[int, float]) -> None:
    for label, number in unit.labels.items():
        left[label] -= number
        missing[label] -= number


def _indices(units: Iterable[_Unit]) -> NDArray[np.int64]:
    return np.array(sorted(index for unit in units for index in unit.indices), np.int64)


def _check_parts(parts: dict[str, float]) -> None:
    for split, part in parts.items():
        if not 0 <= part < 1:
            raise ConfigError(f"{split}={part} is not a part of the training pictures", fix="use 0 to 0.9, such as 0.1")
    if sum(parts.values()) >= 1:
        raise ConfigError(f"val={parts['val']} and test={parts['test']} leave nothing to train on", fix="use less")


# Names and files


def _local_names(examples: Examples) -> list[str]:
    """Names below the folder that all pictures share."""
    names = [examples.pictures.name(index) for index in range(len(examples))]
    first, last = min(names), max(names)  # what these two share, all do
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    start = max(first.rfind(separator, 0, same) for separator in {"/", os.sep}) + 1
    return [name[start:] for name in names]


def _label_cells(examples: Examples) -> list[str]:
    return ["|".join(examples.classes[c] for c in labels if c >= 0) for labels in _labels(examples)]


def _read_rows(path: Path) -> dict[str, tuple[str, str]]:
    """Name to label and split."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            header, *rows = csv.reader(file, strict=True)
    except (OSError, csv.Error, ValueError) as error:  # ValueError: not even a header
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"cannot be read as a split file ({reason})", where=path, fix="split anew") from error
    if header != _COLUMNS or any(len(row) != len(_COLUMNS) for row in rows):
        raise FileError("not a split file", where=path, fix=f"its columns are {','.join(_COLUMNS)}")
    for number, row in enumerate(rows, 2):
        if row[2] not in ("", *SPLITS):
            raise FileError(f"unknown split {row[2]!r}", where=f"{path}, row {number}", fix="use train, val or test")
    return {row[0]: (row[1], row[2]) for row in rows}


def _check_same(path: object, what: str, written: set[str], here: set[str]) -> None:
    if written != here:
        gone, new = sorted(written - here), sorted(here - written)
        said = [f"not in the data: {listed(gone)}"] * bool(gone) + [f"not in the file: {listed(new)}"] * bool(new)
        raise FileError(f"{what} ({'; '.join(said)})", where=path, fix="give the data it was made from, or split anew")
