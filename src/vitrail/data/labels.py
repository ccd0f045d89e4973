"""From what a source says of its pictures, label and split by name, to `Examples`: class numbers, splits, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import NO_LABEL, SPLITS, Examples, Pictures
from vitrail.errors import FileError, did_you_mean, one_line

SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval"), "test"),
}

# By their names only; what a file really is, its content decides when it is opened.
_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .dib .tif .tiff .ppm .pgm .pbm .pnm"
PICTURE_SUFFIXES = frozenset(_SUFFIXES.split())


class Row(NamedTuple):
    """What is known of one picture."""

    labels: tuple[str, ...] = ()  # none: unlabelled; several: multi-label
    split: str | None = None  # of SPLITS; None where the source names none
    group: str | None = None


def assemble(
    name: str,
    pictures: Pictures,
    rows: Sequence[Row],
    *,
    order: Sequence[str] | None = None,
    sort: Callable[[Iterable[str]], list[str]] = sorted,
    multi_label: bool = False,
    notes: Iterable[str] = (),
) -> Examples:
    """Examples of one row a picture. `order` names all classes; without it they are those of train, sorted."""
    splits = _splits(rows)
    _check_groups(name, rows)
    classes = tuple(order) if order is not None else tuple(sort(_train_labels(rows)))
    _check_known(name, rows, classes, "train has" if order is None else "the list of classes has")
    return Examples(
        name=name,
        pictures=pictures,
        targets=_targets(rows, classes, multi_label),
        classes=classes,
        splits=splits,
        groups=tuple(row.group or pictures.name(i) for i, row in enumerate(rows)) if _grouped(rows) else None,
        notes=tuple(notes),
    )


def check_two_classes(examples: Examples) -> None:
    """A classifier needs something to tell apart."""
    if len(examples.classes) >= 2:
        return
    only = f"only one class, {examples.classes[0]!r}" if examples.classes else "no labels"
    inside = Path(examples.name, *examples.classes)
    wrapped = inside.is_dir() and any(path.is_dir() for path in inside.iterdir())
    raise FileError(
        f"there is {only}, and nothing to tell apart",
        where=examples.name,
        fix=f"if the classes are inside it, give {inside}" if wrapped else "add pictures of a second class",
    )


def fit_classes(examples: Examples, classes: Sequence[str]) -> Examples:
    """The same with the class numbers of `classes`, as a model has them. Labels that are not in it are an error."""
    strange = [label for label in examples.classes if label not in classes]
    if strange:
        fix = did_you_mean(strange[0], classes) or "rename them as the model has them, or leave them out"
        raise FileError(f"labels that the model does not know: {listed(strange)}", where=examples.name, fix=fix)
    number = {label: index for index, label in enumerate(classes)}
    places = np.array([number[label] for label in examples.classes], np.int64)
    if examples.multi_label:
        targets = np.zeros((len(examples), len(classes)), np.int64)
        targets[:, places] = examples.targets
    else:
        known = examples.targets != NO_LABEL
        targets = np.full_like(examples.targets, NO_LABEL)
        targets[known] = places[examples.targets[known]]
    absent = [label for label in classes if label not in examples.classes]
    notes = (*examples.notes, f"no pictures of {listed(absent)}") if absent else examples.notes
    return examples.replace(classes=tuple(classes), targets=targets, notes=notes)


def numbered(labels: Iterable[str]) -> list[str]:
    """Labels in order: as numbers where all are, else by name."""
    unique = set(labels)
    if all(label.isascii() and label.isdigit() and len(label) < 19 for label in unique):
        return sorted(unique, key=lambda label: (int(label), label))
    return sorted(unique)


def class_names_beside(folder: Path) -> list[str] | None:
    """The lines of `classes.txt`, if there is one: the name of class 0, of class 1 ..."""
    path = folder / "classes.txt"
    if not path.is_file():
        return None
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise FileError("cannot be read as UTF-8 text", where=path, fix="save it as UTF-8") from error
    names = names[: len(names) - next((i for i, name in enumerate(reversed(names)) if name), len(names))]
    if "" in names or len(set(names)) < len(names):
        raise FileError("an empty line, or a name twice", where=path, fix="write one class name a line")
    return names


def naming(labels: Iterable[str], names: Sequence[str] | None, where: object) -> dict[str, str]:
    """What each label is called: class numbers by their names, where there are names; names stay as they are."""
    unique = set(labels)
    if names is None:
        return {label: label for label in unique}
    called = {str(number): name for number, name in enumerate(names)} | {name: name for name in names}
    strange = sorted(unique - called.keys())
    if strange:
        fix = f"the list names classes 0 to {len(names) - 1}; correct the labels or the list"
        raise FileError(f"labels without a class name: {listed(strange)}", where=where, fix=fix)
    return {label: called[label] for label in unique}


def listed(names: Iterable[str], limit: int = 5) -> str:
    """The first few in quotes, and how many more."""
    every = list(names)
    shown = ", ".join(one_line(repr(name)) for name in every[:limit])
    return shown + (f" and {len(every) - limit:,} more" if len(every) > limit else "")


def count(number: int, thing: str) -> str:
    """`1 picture`, `1,200 pictures`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _splits(rows: Sequence[Row]) -> dict[str, NDArray[np.int64]]:
    places: dict[str, list[int]] = {split: [] for split in SPLITS}
    for index, row in enumerate(rows):
        places[row.split or "train"].append(index)
    return {split: np.array(indices, np.int64) for split, indices in places.items() if indices}


def _train_labels(rows: Sequence[Row]) -> set[str]:
    train = [row for row in rows if row.split in (None, "train")] or rows
    return {label for row in train for label in row.labels}


def _check_known(name: str, rows: Sequence[Row], classes: Sequence[str], who_has: str) -> None:
    known = set(classes)
    strange: dict[str, set[str]] = {}
    for row in rows:
        if not known.issuperset(row.labels):
            strange.setdefault(row.split or "train", set()).update(set(row.labels) - known)
    if strange:
        split, labels = next(iter(strange.items()))
        near = did_you_mean(min(labels), classes)
        raise FileError(
            f"{split} has labels that are not among the {len(classes)} {who_has}: {listed(sorted(labels))}",
            where=name,
            fix="rename them, add training pictures of them, or leave them out" + (f"; {near}" if near else ""),
        )


def _grouped(rows: Sequence[Row]) -> bool:
    return any(row.group for row in rows)


def _check_groups(name: str, rows: Sequence[Row]) -> None:
    home: dict[str, str | None] = {}
    for row in rows:
        if row.group and home.setdefault(row.group, row.split) != row.split:
            raise FileError(
                f"group {row.group!r} is in {home[row.group]} and in {row.split}, so one would be judged on what the "
                "other has seen",
                where=name,
                fix="put all pictures of a group into one split",
            )


def _targets(rows: Sequence[Row], classes: Sequence[str], multi_label: bool) -> NDArray[np.int64]:
    number = {label: index for index, label in enumerate(classes)}
    if not multi_label:
        return np.array([number[row.labels[0]] if row.labels else NO_LABEL for row in rows], np.int64)
    targets = np.zeros((len(rows), len(classes)), np.int64)
    for index, row in enumerate(rows):
        targets[index, [number[label] for label in row.labels]] = 1
    return targets
