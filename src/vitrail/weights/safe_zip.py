"""Zip archives that cannot surprise: one reading of every record, bounded sizes, nothing hidden between records.

A zip says everything twice, in a directory at its end and in front of each record. Readers differ in which they
believe, so a file whose two accounts differ is refused, and so is one with bytes that belong to no record.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO

from vitrail.errors import UnsafeFileError, WeightsError

MAX_DIRECTORY_BYTES = 2 << 20  # some 20,000 records; bounds the memory of their descriptions
MAX_EXPANSION = 8  # weights hardly compress; a bomb does, a thousandfold
FREE_EXPANSION = 16 << 20  # small files of zeros may expand more

RESAVE = "re-save it with numpy.savez or torch.save"

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED_FLAGS, _SIZES_FOLLOW = 0x2041, 0x8
_IN_ZIP64 = 0xFFFFFFFF
_DESCRIPTOR_SIZES = (0, 12, 16, 20, 24)  # after a record: nothing, or crc and sizes with or without a signature
_CHUNK = 1 << 20


@dataclass(frozen=True)
class CheckedZip:
    """An archive that passed `open_zip`; `where` is the path to name in errors."""

    archive: zipfile.ZipFile
    file: BinaryIO
    where: object

    @property
    def names(self) -> list[str]:
        return self.archive.namelist()

    def size(self, name: str) -> int:
        return self.archive.getinfo(name).file_size

    def is_compressed(self, name: str) -> bool:
        return self.archive.getinfo(name).compress_type != zipfile.ZIP_STORED

    @contextmanager
    def record(self, name: str) -> Iterator[Record]:
        with _faults_named(self.where), self.archive.open(name) as stream:
            yield Record(stream, name, self.where)


@dataclass(frozen=True)
class Record:
    """One open record, read in pieces so that no second copy of it is held."""

    stream: IO[bytes]
    name: str
    where: object

    def read(self, count: int) -> bytearray:
        """Exactly `count` bytes."""
        buffer = bytearray(count)
        view, position = memoryview(buffer), 0
        while position < count:
            piece = self.stream.read(min(_CHUNK, count - position))
            if not piece:
                raise WeightsError(f"record {self.name!r} ends early", where=self.where, fix="download it again")
            view[position : position + len(piece)] = piece
            position += len(piece)
        return buffer

    def finish(self) -> None:
        """Read to the end, which checks the checksum."""
        while self.stream.read(_CHUNK):
            pass


def open_zip(file: BinaryIO, where: object) -> CheckedZip:
    """The archive, after its directory, its records' own headers and their sizes were found to agree."""
    size = file.seek(0, os.SEEK_END)
    with _faults_named(where):
        directory_start, count = _directory(file, size, where)
        archive = zipfile.ZipFile(file)
        if len(archive.infolist()) != count:
            raise UnsafeFileError("its directory holds more or less than it says", where=where, fix=RESAVE)
        records = sorted(archive.infolist(), key=lambda record: record.header_offset)
        _check_names(records, where)
        _check_sizes(records, size, where)
        _check_places(file, records, directory_start, where)
    return CheckedZip(archive, file, where)


@contextmanager
def _faults_named(where: object) -> Iterator[None]:
    """What Python's zip reader raises on a damaged archive, as our error."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise WeightsError(f"damaged archive ({error})", where=where, fix="download it again") from error


def _directory(file: BinaryIO, size: int, where: object) -> tuple[int, int]:
    """Start and count of the directory; it must be small, and end where the end record (the last 22 bytes) begins."""
    end_at = size - _END.size
    signature, disk, _, _, count, length, start, comment = _END.unpack(_read_at(file, end_at, _END.size))
    if signature != b"PK\x05\x06" or disk or comment:
        raise WeightsError("damaged archive (no end record at its end)", where=where, fix="download it again")
    narrow, wide = (count, length, start), _wide_end(file, end_at, where)
    if wide is not None:
        end_at, *values = wide
        saturated = (0xFFFF, _IN_ZIP64, _IN_ZIP64)
        if any(n not in (w, s) for n, w, s in zip(narrow, values, saturated, strict=True)):
            raise UnsafeFileError("its two end records differ", where=where, fix=RESAVE)
        count, length, start = values
    if length > MAX_DIRECTORY_BYTES:
        raise UnsafeFileError(f"its directory claims {length:,} bytes", where=where, fix=RESAVE)
    if start + length != end_at:
        raise UnsafeFileError("its directory is not where it says", where=where, fix=RESAVE)
    return start, count


def _wide_end(file: BinaryIO, end_at: int, where: object) -> tuple[int, int, int, int] | None:
    """The 64-bit end record, if there is one: its place, and the count, length and start of the directory."""
    locator_at = end_at - _LOCATOR64.size
    if locator_at < _END64.size:
        return None
    signature, _, wide_at, _ = _LOCATOR64.unpack(_read_at(file, locator_at, _LOCATOR64.size))
    if signature != b"PK\x06\x07":
        return None
    if wide_at != locator_at - _END64.size:
        raise UnsafeFileError("its 64-bit end record is not where it says", where=where, fix=RESAVE)
    signature, *_, count, length, start = _END64.unpack(_read_at(file, wide_at, _END64.size))
    if signature != b"PK\x06\x06":
        raise zipfile.BadZipFile("no 64-bit end record")
    return wide_at, count, length, start


def _read_at(file: BinaryIO, position: int, count: int) -> bytes:
    file.seek(max(0, position))
    return file.read(count)


def _check_names(records: list[zipfile.ZipInfo], where: object) -> None:
    seen = set()
    for record in records:
        name = record.filename
        if name != record.orig_filename or not name.isprintable() or "\\" in name or name[1:2] == ":":
            raise UnsafeFileError(f"record {name!r} has a forged name", where=where, fix=RESAVE)
        if not all(part and part.strip(". ") for part in name.split("/")):
            raise UnsafeFileError(f"record {name!r} points outside the archive", where=where, fix=RESAVE)
        if name in seen:
            raise UnsafeFileError(f"two records are named {name!r}", where=where, fix=RESAVE)
        seen.add(name)


def _check_sizes(records: list[zipfile.ZipInfo], size: int, where: object) -> None:
    for record in records:
        name, stored = record.filename, record.compress_type == zipfile.ZIP_STORED
        if record.flag_bits & _ENCRYPTED_FLAGS:
            raise UnsafeFileError(f"record {name!r} is encrypted", where=where, fix="write it without a password")
        if not stored and record.compress_type != zipfile.ZIP_DEFLATED:
            raise WeightsError(f"record {name!r} is packed in an unknown way", where=where, fix=RESAVE)
        if stored and record.compress_size != record.file_size:
            raise UnsafeFileError(f"record {name!r} lies about its size", where=where, fix=RESAVE)
    expanded = sum(record.file_size for record in records)
    if expanded > max(MAX_EXPANSION * size, FREE_EXPANSION):
        raise UnsafeFileError(
            f"its {size:,} bytes would expand to {expanded:,}", where=where, fix="save it uncompressed (numpy.savez)"
        )


def _check_places(file: BinaryIO, records: list[zipfile.ZipInfo], directory_start: int, where: object) -> None:
    """Records lie end to end from the first byte to the directory, and their own headers agree with it."""
    end: int = 0
    slack: tuple[int, ...] = (0,)
    for record in records:
        if record.header_offset - end not in slack:
            raise UnsafeFileError(f"record {record.filename!r} overlaps or hides bytes", where=where, fix=RESAVE)
        end = record.header_offset + _local_size(file, record, where) + record.compress_size
        slack = _DESCRIPTOR_SIZES if record.flag_bits & _SIZES_FOLLOW else (0,)
    if directory_start - end not in slack:
        raise UnsafeFileError("bytes are hidden before its directory", where=where, fix=RESAVE)


def _local_size(file: BinaryIO, record: zipfile.ZipInfo, where: object) -> int:
    """The length of a record's own header, once it is found to say what the directory says."""
    header = _read_at(file, record.header_offset, _LOCAL.size)
    signature, _, flags, method, _, _, crc, packed, plain, name_length, extra_length = _LOCAL.unpack(header)
    name, extra = file.read(name_length), file.read(extra_length)
    packed, plain = _widened(packed, plain, extra)
    told = (crc, packed, plain)
    known = (record.CRC, record.compress_size, record.file_size)
    later = bool(flags & _SIZES_FOLLOW) and not any(told)
    same = name == _raw_name(record) and flags == record.flag_bits and method == record.compress_type
    if signature != b"PK\x03\x04" or not same or (told != known and not later):
        raise UnsafeFileError(f"record {record.filename!r} is described in two ways", where=where, fix=RESAVE)
    return _LOCAL.size + len(name) + len(extra)


def _widened(packed: int, plain: int, extra: bytes) -> tuple[int, int]:
    """Sizes too large for 32 bits stand in a first extra field of type 1: plain size, then packed size."""
    if packed == plain == _IN_ZIP64 and extra[:2] == b"\x01\x00" and len(extra) >= 20:
        plain, packed = struct.unpack_from("<2Q", extra, 4)
    return packed, plain


def _raw_name(record: zipfile.ZipInfo) -> bytes:
    return record.orig_filename.encode("utf-8" if record.flag_bits & 0x800 else "cp437")
