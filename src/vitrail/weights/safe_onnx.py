"""Looking through an ONNX file before a library opens it: one self-contained graph of known operators, or none.

The file is a tree of protobuf messages, each a row of numbered fields. Only what can lead out of the file is looked
at: tensors kept in other files, operators of other libraries, functions that hide either. Needs no torch, no onnx.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from vitrail.errors import FileError, UnsafeFileError, WeightsError

MAX_BYTES = 2**31 - 1  # more than protobuf can hold
MAX_FIELDS = 500_000  # ours have some thousands
MAX_DEPTH = 16  # of graphs within graphs; ours have none
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # operators that ONNX Runtime brings along
EXPORT = "export the model with `vitrail export`"

# Field numbers of onnx.proto, by the kind of message they hold.
MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "opset", 14: "entry"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute", 7: "domain"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "opset": {1: "domain"},
}
LOCATION, EXTERNAL = 14, 13  # of a tensor: whether its numbers are elsewhere, and where
TRAINING, FUNCTIONS = 20, 25  # of a model


def read_onnx(path: Path) -> tuple[bytes, dict[str, str]]:
    """The bytes of a file that leads nowhere else, and its metadata."""
    content = _read(path)
    scan = _Scan(path)
    try:
        scan.look(memoryview(content), "model", 0)
    except (IndexError, UnicodeDecodeError):
        raise WeightsError("is not a whole ONNX file", where=path, fix=EXPORT) from None
    return content, scan.metadata


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileError("is no file", where=path, fix="give the .onnx file itself")
        if status.st_size > MAX_BYTES:
            raise FileError("is larger than 2 GiB", where=path, fix=EXPORT)
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", where=path, fix="check the path") from error


class _Scan:
    """Walks through the messages of a file. It gives up on a file made to be walked through for ever."""

    def __init__(self, path: Path) -> None:
        self.path, self.left = path, MAX_FIELDS
        self.metadata: dict[str, str] = {}

    def look(self, message: memoryview, kind: str, depth: int) -> None:
        inside = MESSAGES.get(kind, {})
        for field, value, _ in fields(message):
            self.left -= 1
            if depth > MAX_DEPTH or self.left < 0:
                self.refuse("is nested too deeply, or of too many pieces")
            if kind == "tensor" and (field == EXTERNAL or (field == LOCATION and value != 0)):
                self.refuse("keeps its weights in another file, which could be any")
            if kind == "model" and field in (TRAINING, FUNCTIONS):
                self.refuse("holds functions of its own")
            part = inside.get(field)
            if part is not None and not isinstance(value, int):
                self.look_inside(value, part, depth)

    def look_inside(self, value: memoryview, part: str, depth: int) -> None:
        if part == "domain":
            domain = bytes(value).decode()
            if domain not in DOMAINS:
                self.refuse(f"needs operators of {domain!r}, which is other code")
        elif part == "entry":
            entry = {number: said for number, said, _ in fields(value)}
            self.metadata[_text(entry.get(1))] = _text(entry.get(2))
        else:
            self.look(value, part, depth + 1)

    def refuse(self, what: str) -> None:
        raise UnsafeFileError(what, where=self.path, fix=EXPORT)


def _text(value: memoryview | int | None) -> str:
    return bytes(value).decode() if isinstance(value, memoryview) else ""


def fields(message: memoryview) -> Iterator[tuple[int, memoryview | int, memoryview]]:
    """Of each field its number, its value (a whole number, or the bytes of a string, message or packed row), and all
    of its bytes as they stand."""
    place = 0
    while place < len(message):
        start = place
        key, place = _varint(message, place)
        field, wire = key >> 3, key & 7
        if wire == 0:
            number, place = _varint(message, place)
            yield field, number, message[start:place]
        else:
            size, place = _varint(message, place) if wire == 2 else ({1: 8, 5: 4}.get(wire, len(message) + 1), place)
            if place + size > len(message):  # cut off, or a kind of field that protobuf no longer has
                raise IndexError
            yield field, message[place : place + size], message[start : place + size]
            place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise IndexError
