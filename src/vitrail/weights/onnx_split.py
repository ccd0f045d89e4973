"""An ONNX file as two things: a small graph, and the large matrices, which stay where they are in memory.

A runtime that is given the whole file copies every weight three times on the way; given these, it copies none. The
graph is the one that `read_onnx` looked through, with placeholders in it; a matrix is numbers and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitrail.weights.safe_onnx import fields

Matrices = dict[str, NDArray[Any]]

# Field numbers of onnx.proto.
GRAPH, INITIALIZER = 7, 5
DIMS, TYPE, NAME, RAW = 1, 2, 8, 9
NUMBERS: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1")}
LARGE = 2**16  # bytes; less is not worth a placeholder
ELSEWHERE = b"\x70\x01" + b"\x6a\x15\x0a\x08location\x12\x09in memory"  # data_location and external_data


def split(content: bytes) -> tuple[bytes, Matrices]:
    """The file with a placeholder for each large matrix, and the matrices, as views of `content`."""
    found: Matrices = {}
    parts: list[bytes | memoryview] = []
    for number, value, whole in fields(memoryview(content)):
        if number == GRAPH and isinstance(value, memoryview):
            parts.append(_message(GRAPH, _without_matrices(value, found)))
        else:
            parts.append(whole)
    return b"".join(parts), found


def _without_matrices(graph: memoryview, found: Matrices) -> bytes:
    parts: list[bytes | memoryview] = []
    for number, value, whole in fields(graph):
        placeholder = None
        if number == INITIALIZER and isinstance(value, memoryview) and len(value) >= LARGE:
            placeholder = _take(value, found)
        parts.append(whole if placeholder is None else _message(INITIALIZER, placeholder))
    return b"".join(parts)


def _take(tensor: memoryview, found: Matrices) -> bytes | None:
    """The tensor without its numbers, which go to `found`; None for what is no plain matrix, or has no name."""
    values: dict[int, Any] = {}
    sides: list[Any] = []
    rest: list[memoryview] = []
    for number, value, whole in fields(tensor):
        values[number] = value
        if number == DIMS:
            sides.append(value)
        if number != RAW:
            rest.append(whole)
    kind, called, numbers = NUMBERS.get(values.get(TYPE, 0)), values.get(NAME), values.get(RAW)
    if kind is None or not isinstance(called, memoryview) or not isinstance(numbers, memoryview):
        return None
    name = bytes(called).decode(errors="replace")
    if not name or name in found or "\ufffd" in name:
        return None
    if [type(side) for side in sides] != [int, int] or sides[0] * sides[1] * kind.itemsize != len(numbers):
        return None
    found[name] = np.frombuffer(numbers, kind).reshape(sides)
    return b"".join((*rest, ELSEWHERE))


def _message(number: int, content: bytes) -> bytes:
    """A field that holds a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes((*parts, number))
