"""The header of a safetensors file, checked in full before anything is mapped or read.

8 bytes of length, that many bytes of JSON, then the data: every byte of it belongs to exactly one tensor.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, NamedTuple, NoReturn

import torch

from vitrail.errors import UnsafeFileError, WeightsError

Shape = tuple[int, ...]
Listing = dict[str, tuple[torch.dtype, Shape]]

MAX_HEADER_BYTES = 8 << 20  # a thousand times a ViT's; bounds what parsing can cost
MAX_HEADER_ITEMS = 500_000  # brackets and commas: bounds the objects that a small, dense JSON can become
MAX_DIMENSIONS = 16
MAX_SIDE = 2**63 - 1
RESAVE = "re-save it with the safetensors library"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class _Entry(NamedTuple):
    begin: int
    end: int
    name: str
    dtype: torch.dtype
    shape: Shape


def read_header(file: BinaryIO, where: object) -> tuple[dict[str, str], Listing]:
    """Metadata and {name: (dtype, shape)}, after every claim of the header was held against the file's size."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > MAX_HEADER_BYTES:
        raise UnsafeFileError(f"its header claims {length:,} bytes", where=where, fix="no model needs more than 8 MB")
    if 8 + length > size:
        raise WeightsError("it ends inside its header", where=where, fix="download it again")
    header = _parse(file.read(length), where)
    metadata = _checked_metadata(header.pop("__metadata__", {}), where)
    entries = [_checked_entry(name, entry, where) for name, entry in header.items()]
    _check_tiling(entries, size - 8 - length, where)
    return metadata, {entry.name: (entry.dtype, entry.shape) for entry in entries}


def _parse(text: bytes, where: object) -> dict[str, Any]:
    if sum(map(text.count, (b"[", b"{", b","))) > MAX_HEADER_ITEMS:
        raise UnsafeFileError("its header holds too many items", where=where, fix="no model needs half a million")
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except _DuplicateKeyError as error:
        raise UnsafeFileError(f"its header names {error} twice", where=where, fix=RESAVE) from None
    except RecursionError:
        raise UnsafeFileError("its header is nested without end", where=where, fix=RESAVE) from None
    except ValueError as error:
        raise WeightsError(f"its header is not JSON ({error})", where=where, fix="download it again") from error
    if type(header) is not dict:
        raise WeightsError("its header is not a JSON object", where=where, fix="download it again")
    return header


class _DuplicateKeyError(Exception):
    """Readers differ in which of two equal keys they believe."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(repr(key))
        found[key] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _checked_metadata(metadata: object, where: object) -> dict[str, str]:
    if type(metadata) is not dict or any(type(value) is not str for value in metadata.values()):
        raise UnsafeFileError("its metadata is not plain text by name", where=where, fix="store text values only")
    return metadata


def _checked_entry(name: str, entry: Any, where: object) -> _Entry:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise UnsafeFileError(
            f"tensor {name!r} is not described by dtype, shape and data_offsets", where=where, fix=RESAVE
        )
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise WeightsError(
            f"tensor {name!r} is of type {entry['dtype']!r}", where=where, fix="use one of " + ", ".join(DTYPES)
        )
    shape, offsets = _counts(entry["shape"]), _counts(entry["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        raise UnsafeFileError(f"tensor {name!r} has an impossible shape or place", where=where, fix=RESAVE)
    begin, end = offsets
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise UnsafeFileError(
            f"tensor {name!r} of shape {shape} does not fill its {end - begin} bytes", where=where, fix=RESAVE
        )
    return _Entry(begin, end, name, dtype, shape)


def _counts(value: object) -> Shape | None:
    """A short list of whole numbers from 0 as a tuple, or None."""
    if type(value) is not list or len(value) > MAX_DIMENSIONS:
        return None
    return tuple(value) if all(type(n) is int and 0 <= n <= MAX_SIDE for n in value) else None


def _check_tiling(entries: list[_Entry], data_size: int, where: object) -> None:
    """Tensors lie end to end: no overlap, no hole, nothing after the last."""
    position = 0
    for entry in sorted(entries):
        if entry.end > data_size:
            raise UnsafeFileError(
                f"tensor {entry.name!r} ends at byte {entry.end} of {data_size}", where=where, fix="download it again"
            )
        if entry.begin != position:
            fault = "overlaps another" if entry.begin < position else "leaves a hole before it"
            raise UnsafeFileError(f"tensor {entry.name!r} {fault}", where=where, fix=RESAVE)
        position = entry.end
    if position != data_size:
        raise UnsafeFileError(f"{data_size - position} bytes belong to no tensor", where=where, fix=RESAVE)
