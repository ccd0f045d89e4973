"""Numbers from MATLAB 5 files, as Oxford's flowers keep their labels: numeric arrays only."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.errors import FileError

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_MAX_BYTES = 10**8


class _Element(NamedTuple):
    kind: int
    data: bytes


def read_mat(path: Path) -> dict[str, NDArray[np.int64]]:
    """The arrays of whole numbers in a MATLAB 5 file, flat, by name."""
    try:
        data = path.read_bytes()
        if data[126:128] != b"IM" or len(data) > _MAX_BYTES:
            raise ValueError("not MATLAB 5, little endian")
        return dict(_array(element) for element in _elements(data[128:]))
    except (OSError, ValueError, IndexError, KeyError, zlib.error) as error:
        raise FileError(f"cannot be read as a MATLAB file ({error})", where=path, fix="download it again") from error


def _elements(data: bytes) -> list[_Element]:
    """Tag and data, one after the other; what is packed is unpacked."""
    found, at = [], 0
    while at < len(data):
        element, at = _element(data, at)
        found.append(_unpacked(element.data) if element.kind == _COMPRESSED else element)
    return found


def _element(data: bytes, at: int) -> tuple[_Element, int]:
    kind, size = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (0, 4))
    if kind >> 16:  # a small one: size, kind and data in eight bytes
        return _Element(kind & 0xFFFF, data[at + 4 : at + 4 + (kind >> 16)]), at + 8
    if at + 8 + size > len(data):
        raise ValueError("cut short")
    padding = 0 if kind == _COMPRESSED else -size % 8
    return _Element(kind, data[at + 8 : at + 8 + size]), at + 8 + size + padding


def _unpacked(data: bytes) -> _Element:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(data, _MAX_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError("too large")
    return _element(plain, 0)[0]


def _array(matrix: _Element) -> tuple[str, NDArray[np.int64]]:
    if matrix.kind != _MATRIX:
        raise ValueError(f"an element of kind {matrix.kind}")
    _flags, _sides, name, values = _elements(matrix.data)[:4]
    numbers = np.frombuffer(values.data, np.dtype(_TYPES[values.kind]).newbyteorder("<"))
    return name.data.decode("ascii"), numbers.astype(np.int64)
