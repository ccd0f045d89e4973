"""A folder of pictures: one folder a class, with or without folders for the splits above them."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.data.examples import Examples, FilePictures
from vitrail.data.labels import PICTURE_SUFFIXES, SPLIT_WORDS, Row, assemble, count, listed
from vitrail.errors import FileError, one_line

_NOT_DATA = frozenset({"thumbs.db", "desktop.ini", "__macosx", "icon\r", "$recycle.bin"})  # besides all hidden names

Parts = tuple[str, ...]  # the folders and the name below the root


@dataclass
class _Found:
    """What lies below a folder; every real folder is entered once, whatever the links say."""

    folders: set[Parts] = field(default_factory=set)
    pictures: dict[Parts, Path] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)  # by suffix, or name where there is none
    entered_before: list[Parts] = field(default_factory=list)


def open_folder(root: Path, *, labelled: bool = True) -> Examples:
    """All pictures below a folder: `cat/1.jpg`, `train/cat/1.jpg`; with `labelled=False` wherever they lie."""
    found = _walk(root)
    if not found.pictures:
        raise _no_pictures(root, found)
    splits = _split_folders(root, found)
    placed = [(parts, _place(parts, splits, labelled)) for parts in sorted(found.pictures)]
    used = [(parts, row) for parts, row in placed if row is not None]
    if labelled:
        if not used:
            raise _no_classes(root, found)
        _check_no_class_is_empty(root, found, splits, [row for _, row in used])
    pictures = FilePictures([found.pictures[parts] for parts, _ in used])
    notes = _notes(found, splits, [parts for parts, row in placed if row is None])
    return assemble(str(root), pictures, [row for _, row in used], notes=notes)


def _walk(root: Path) -> _Found:
    """Real folders first, then those that only links lead to, so that a link never takes a folder from its place."""
    found, seen, links = _Found(), set[tuple[int, int]](), list[Parts]()
    waiting: list[Parts] = [()]
    while waiting or links:
        parts = waiting.pop() if waiting else links.pop(0)
        folder = root.joinpath(*parts)
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:
            found.entered_before.append(parts)
            continue
        seen.add((status.st_dev, status.st_ino))
        found.folders.add(parts)
        for entry in _entries(folder):
            below = (*parts, entry.name)
            if _is_folder(entry):
                (links if entry.is_symlink() else waiting).append(below)
            elif Path(entry.name).suffix.lower() in PICTURE_SUFFIXES:
                found.pictures[below] = root.joinpath(*below)
            else:
                found.others[Path(entry.name).suffix.lower() or entry.name] += 1
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            seen = [e for e in entries if not e.name.startswith(".") and e.name.lower() not in _NOT_DATA]
    except OSError as error:
        raise FileError(f"cannot be listed ({error.strerror})", where=folder, fix="check its permissions") from error
    return sorted(seen, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _split_folders(root: Path, found: _Found) -> dict[str, str]:
    """Folder name to split, where the first level is splits: there is a train, or there is nothing else."""
    top = sorted(parts[0] for parts in found.folders if len(parts) == 1)
    splits = {name: SPLIT_WORDS[name.lower()] for name in top if name.lower() in SPLIT_WORDS}
    if "train" not in splits.values() and len(splits) < len(top):
        return {}
    for split in set(splits.values()):
        same = [name for name, meant in splits.items() if meant == split]
        if len(same) > 1:
            raise FileError(f"several folders for {split}: {listed(same)}", where=root, fix="keep one of them")
    return splits


def _place(parts: Parts, splits: dict[str, str], labelled: bool) -> Row | None:
    """What a picture's place says of it; None for one that lies beside the folders that count."""
    split = splits.get(parts[0]) if len(parts) > 1 else None
    if splits and split is None:
        return None
    if not labelled:
        return Row(split=split)
    inside = parts[1:] if splits else parts
    return Row((_class_name(inside[0]),), split) if len(inside) > 1 else None


def _class_name(folder: str) -> str:
    """One spelling for é, which some systems store as one character and some as two."""
    return unicodedata.normalize("NFC", folder)


def _check_no_class_is_empty(root: Path, found: _Found, splits: dict[str, str], rows: list[Row]) -> None:
    """Left out in silence, an empty class would give its number to the next one."""
    depth = 2 if splits else 1
    full = {(row.split, row.labels[0]) for row in rows}
    for parts in sorted(parts for parts in found.folders if len(parts) == depth):
        split = splits[parts[0]] if splits and parts[0] in splits else None
        if (splits and split != "train") or (split, _class_name(parts[-1])) in full:
            continue
        raise FileError(
            "a class without pictures",
            where=root.joinpath(*parts),
            fix="put pictures into the folder, or remove it" + _what_it_holds(root.joinpath(*parts)),
        )


def _what_it_holds(folder: Path) -> str:
    others = Counter(path.suffix.lower() or path.name for path in folder.rglob("*") if path.is_file())
    return f" (it holds {_suffixes(others)} files, which are not read)" if others else ""


def _notes(found: _Found, splits: dict[str, str], beside: list[Parts]) -> list[str]:
    notes = []
    if splits:
        notes.append("splits by folder: " + ", ".join(f"{name} is {split}" for name, split in splits.items()))
    elif words := sorted(p[0] for p in found.folders if len(p) == 1 and p[0].lower() in SPLIT_WORDS):
        notes.append(f"{listed(words)} taken as a class, because there is no folder 'train' beside it")
    if beside:
        shown = listed("/".join(parts) for parts in beside)
        notes.append(f"{count(len(beside), 'picture')} beside the class folders not used: {shown}")
    if found.others:
        notes.append(f"files that are not pictures: {_suffixes(found.others)}")
    if found.entered_before:
        shown = listed("/".join(parts) for parts in found.entered_before)
        notes.append(f"links to folders that were read already, not followed again: {shown}")
    notes += _empty_elsewhere(found, splits)
    return notes


def _empty_elsewhere(found: _Found, splits: dict[str, str]) -> list[str]:
    full = {parts[:2] for parts in found.pictures}
    empty = sorted(p for p in found.folders if len(p) == 2 and splits.get(p[0], "train") != "train" and p not in full)
    return [f"no pictures in {listed('/'.join(parts) for parts in empty)}"] if empty and splits else []


def _no_pictures(root: Path, found: _Found) -> FileError:
    looked = f"no pictures here (looked for {' '.join(sorted(PICTURE_SUFFIXES))})"
    other = f"it holds {_suffixes(found.others)} files; " if found.others else ""
    return FileError(looked, where=root, fix=other + "give a folder with one folder of pictures a class")


def _no_classes(root: Path, found: _Found) -> FileError:
    return FileError(
        f"{count(len(found.pictures), 'picture')}, but no class folders, so nothing says what is on them",
        where=root,
        fix="put them into one folder a class (cat/1.jpg, dog/2.jpg), or list them in a CSV with columns path,label",
    )


def _suffixes(others: Counter[str]) -> str:
    return one_line(", ".join(f"{number:,} {suffix}" for suffix, number in others.most_common(5)))
