"""The pictures that some words mean: files, folders, patterns. Found one by one, so that any number of them will do."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from vitrail.data.labels import PICTURE_SUFFIXES
from vitrail.errors import FileError

Complain = Callable[[FileError], None]
CHUNK = 1 << 16


def find_pictures(words: Iterable[str], complain: Complain, *, patterns: bool = True) -> Iterator[str]:
    """Paths, in the order of the words; within a folder, as the file system has them.

    A file is taken as it is, there or not, whatever its name: opening it will tell. A folder gives all that is named
    like a picture in it and below, but for hidden names. `*`, `?` and `[...]` make a pattern, and `**` any depth.
    What leads nowhere is told to `complain`.
    """
    for word in words:
        if os.path.isdir(word):  # noqa: PTH112 (Path would change the user's word)
            yield from _or_complain(_below(word, complain), complain, word, "no pictures in this folder")
        elif patterns and glob.has_magic(word) and not os.path.lexists(word):
            matching = glob.iglob(word, recursive=True)  # noqa: PTH207 (one by one, whatever the word begins with)
            matches = find_pictures(matching, complain, patterns=False)
            yield from _or_complain(matches, complain, word, "no file matches this pattern")
        else:
            yield word


def read_paths(stream: BinaryIO, *, null: bool = False) -> Iterator[str]:
    """Paths from a stream as they come: one a line, or each followed by a zero byte, as `find -print0` writes them."""
    separator, rest = (b"\0" if null else b"\n"), b""
    read = getattr(stream, "read1", stream.read)  # `read` alone would wait for a whole chunk
    while chunk := read(CHUNK):
        *whole, rest = (rest + chunk).split(separator)
        yield from filter(None, (_path(piece, null) for piece in whole))
    if last := _path(rest, null):
        yield last


def _path(piece: bytes, null: bool) -> str:
    return os.fsdecode(piece if null else piece.rstrip(b"\r"))


def _or_complain(paths: Iterator[str], complain: Complain, word: str, what: str) -> Iterator[str]:
    nothing = True
    for path in paths:
        nothing = False
        yield path
    if nothing:
        complain(FileError(what, where=word, fix="look for another place, or name the files themselves"))


def _below(folder: str, complain: Complain) -> Iterator[str]:
    """Every real folder is entered once, whatever the links say."""
    waiting, seen = [folder], set[tuple[int, int]]()
    while waiting:
        inside = waiting.pop()
        try:
            status = os.stat(inside)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(inside) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if _is_folder(entry):
                        waiting.append(entry.path)
                    elif Path(entry.name).suffix.lower() in PICTURE_SUFFIXES:
                        yield entry.path
        except OSError as error:
            complain(FileError(f"cannot be listed ({error.strerror})", where=inside, fix="check its permissions"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
