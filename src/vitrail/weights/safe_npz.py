"""Arrays of an `.npz` file as tensors, read without numpy: its header parser evaluates text, ours matches it."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import torch

from vitrail.errors import UnsafeFileError, WeightsError
from vitrail.weights.safe_header import MAX_DIMENSIONS, Listing, Shape
from vitrail.weights.safe_zip import CheckedZip, Record

MAX_HEADER_BYTES = 10_000  # numpy's own limit

DTYPES = {
    "<f8": torch.float64,
    "<f4": torch.float32,
    "<f2": torch.float16,
    "|V2": torch.bfloat16,  # numpy has no bfloat16; JAX's arrives as two untyped bytes
    "<V2": torch.bfloat16,
    "<i8": torch.int64,
    "<i4": torch.int32,
    "<i2": torch.int16,
    "|i1": torch.int8,
    "|u1": torch.uint8,
    "|b1": torch.bool,
}

_HEADER = re.compile(
    rb"\{'descr': '([^']{1,16})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}L?(?:, \d{1,18}L?)*,?)?)\),? ?\} *\n?"
)


class _Array(NamedTuple):
    dtype: torch.dtype
    shape: Shape
    column_major: bool


def read_npz(archive: CheckedZip) -> dict[str, torch.Tensor]:
    """Every array of the archive, by its name without `.npy`."""
    tensors = {}
    for name in archive.names:
        with archive.record(name) as record:
            tensors[name.removesuffix(".npy")] = _read_array(record, archive.size(name))
    return tensors


def list_npz(archive: CheckedZip) -> Listing:
    """{name: (dtype, shape)}; only the headers are read."""
    listing: Listing = {}
    for name in archive.names:
        with archive.record(name) as record:
            array = _read_header(record, archive.size(name))
        listing[name.removesuffix(".npy")] = (array.dtype, array.shape)
    return listing


def _read_array(record: Record, size: int) -> torch.Tensor:
    array = _read_header(record, size)
    data = record.read(math.prod(array.shape) * array.dtype.itemsize)
    record.finish()
    if not data:
        return torch.empty(array.shape, dtype=array.dtype)
    flat = torch.frombuffer(data, dtype=array.dtype)
    if array.column_major:
        return flat.reshape(array.shape[::-1]).permute(*reversed(range(len(array.shape))))
    return flat.reshape(array.shape)


def _read_header(record: Record, size: int) -> _Array:
    """What the array claims to be, held against the size of its record before anything is allocated."""
    magic = record.read(8)
    width = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}.get(bytes(magic[6:]))
    if magic[:6] != b"\x93NUMPY" or width is None:
        raise _refused(record, "is not a .npy array")
    length = int.from_bytes(record.read(width), "little")
    if length > MAX_HEADER_BYTES:
        raise _refused(record, f"claims a header of {length:,} bytes")
    array = _parsed(bytes(record.read(length)), record)
    if 8 + width + length + math.prod(array.shape) * array.dtype.itemsize != size:
        raise _refused(record, f"of shape {array.shape} does not fill its record")
    return array


def _parsed(header: bytes, record: Record) -> _Array:
    match = _HEADER.fullmatch(header)
    if match is None:
        raise _refused(record, "is not a plain array")
    code, order, sides = (group.decode("latin-1") for group in match.groups())
    if "O" in code:
        raise _refused(record, "holds Python objects, a pickle that can run code")
    if code not in DTYPES:
        fix = "use float, int or bool, little-endian"
        raise WeightsError(f"array {record.name!r} is of type {code!r}", where=record.where, fix=fix)
    shape = tuple(int(side) for side in re.findall(r"\d+", sides))
    if len(shape) > MAX_DIMENSIONS:
        raise _refused(record, f"has {len(shape)} dimensions")
    return _Array(DTYPES[code], shape, order == "True")


def _refused(record: Record, what: str) -> UnsafeFileError:
    return UnsafeFileError(f"array {record.name!r} {what}", where=record.where, fix="save plain arrays by numpy.savez")
