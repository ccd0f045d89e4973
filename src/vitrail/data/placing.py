"""Putting a file or a folder in its place whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitrail.errors import FileError


@contextmanager
def placing(target: Path) -> Iterator[Path]:
    """A free name beside `target`, for a file or a folder to be made there; complete and on disk, it takes the place.

    On any error nothing partial is left. A folder never replaces another: the one that is there first stays.
    """
    temporary = target.parent / f".vitrail-{secrets.token_hex(8)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        for path in (temporary, *temporary.rglob("*")):
            sync(path)
        _take_place(temporary, target)
        sync(target.parent)
    except OSError as error:
        raise FileError(
            f"cannot be written: {error.strerror or error}", where=target, fix="check the folder and the free space"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            temporary.unlink()


def _take_place(temporary: Path, target: Path) -> None:
    if temporary.is_dir() and target.is_dir():
        return
    try:
        temporary.replace(target)
    except OSError:
        if not (temporary.is_dir() and target.is_dir()):  # else another process came first, just now
            raise


def sync(path: Path) -> None:
    """Make a file's content, or the names inside a folder, survive a power cut."""
    folder = path.is_dir()
    if folder and not hasattr(os, "O_DIRECTORY"):  # Windows has no way to sync a folder
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
