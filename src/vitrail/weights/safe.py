"""Opening weight files without trusting them: safetensors, plain `.npz`, and `torch.save` checkpoints.

The kind of a file is decided by its content, never by its name. Every file is checked by our own reading of its
structure before a library parses it; nothing in a file can name code to run, and there is no fall-back to pickle.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import torch
from safetensors import safe_open

from vitrail.errors import FileError, UnsafeFileError, WeightsError, did_you_mean
from vitrail.weights.durable import write_atomically, write_safetensors
from vitrail.weights.safe_header import Listing, read_header
from vitrail.weights.safe_npz import list_npz, read_npz
from vitrail.weights.safe_torch import read_torch
from vitrail.weights.safe_zip import CheckedZip, open_zip

__all__ = ["WeightsFile", "npz_header", "read_tensors", "safetensors_header", "write_atomically", "write_safetensors"]

Kind = Literal["safetensors", "npz", "torch"]
AnyPath = str | os.PathLike[str]

RESAVE = "re-save the tensors as safetensors, or with torch.save of torch >= 1.6"


@dataclass(frozen=True)
class WeightsFile:
    """What a file held: tensors by name, the text beside them, and what kind of file it was."""

    tensors: dict[str, torch.Tensor]
    metadata: dict[str, str] = field(default_factory=dict)
    kind: Kind = "safetensors"


def read_tensors(path: AnyPath, *, allow_nonfinite: bool = False) -> WeightsFile:
    """All tensors of a file, on the CPU; NaN and infinity are refused by name unless allowed."""
    path = Path(path)
    with _regular_file(path) as file:
        weights = _READERS[_kind_of(file, path)](file, path)
    if not allow_nonfinite:
        _refuse_nonfinite(weights.tensors, path)
    return weights


def safetensors_header(path: AnyPath) -> tuple[dict[str, str], Listing]:
    """Metadata and {name: (dtype, shape)} of a safetensors file; its tensors are not read."""
    path = Path(path)
    with _regular_file(path) as file:
        _expect("safetensors", _kind_of(file, path), path)
        return read_header(file, path)


def npz_header(path: AnyPath) -> Listing:
    """{name: (dtype, shape)} of an `.npz` file; its arrays are not read."""
    path = Path(path)
    with _regular_file(path) as file:
        _expect("npz", _kind_of(file, path), path)
        return list_npz(open_zip(file, path))


def _read_safetensors(file: BinaryIO, path: Path) -> WeightsFile:
    metadata, listing = read_header(file, path)
    try:
        with safe_open(os.fspath(path), framework="pt", device="cpu") as opened:
            tensors = {name: opened.get_tensor(name) for name in listing}
    except Exception as error:  # a parser not ours: whatever it raises is a file it cannot read
        raise WeightsError(f"safetensors cannot read it ({error})", where=path, fix="download it again") from error
    return WeightsFile(tensors, metadata, "safetensors")


def _read_npz(file: BinaryIO, path: Path) -> WeightsFile:
    return WeightsFile(read_npz(open_zip(file, path)), kind="npz")


def _read_torch(file: BinaryIO, path: Path) -> WeightsFile:
    return WeightsFile(read_torch(open_zip(file, path)), kind="torch")


_READERS: dict[Kind, Callable[[BinaryIO, Path], WeightsFile]] = {
    "safetensors": _read_safetensors,
    "npz": _read_npz,
    "torch": _read_torch,
}


def _refuse_nonfinite(tensors: dict[str, torch.Tensor], path: Path) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            # The extremes are NaN or infinite if any value is, and need no temporary the size of the tensor.
            low, high = torch.aminmax(tensor)
            if not (torch.isfinite(low) and torch.isfinite(high)):
                raise WeightsError(f"tensor {name!r} holds NaN or infinity", where=path, fix="use an earlier one")


@contextmanager
def _regular_file(path: Path) -> Iterator[BinaryIO]:
    """The file opened for reading; a failing disk or too little memory while it is read is our error too."""
    try:
        with os.fdopen(_open_regular(path), "rb") as file:
            yield file
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", where=path, fix="check the disk") from error
    except MemoryError:
        raise FileError("needs more memory than there is", where=path, fix="free memory and try again") from None


def _open_regular(path: Path) -> int:
    """A descriptor of a regular file; a folder, FIFO or device is refused before it is opened."""
    try:
        _check_regular(path.stat(), path)
        # O_NONBLOCK: if a FIFO takes the file's place right now, opening it must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise FileError("no such file", where=path, fix=_neighbours(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"cannot be opened: {reason}", where=path, fix="check the path and its permissions") from error
    try:
        _check_regular(os.fstat(descriptor), path)
    except FileError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise FileError(f"this is {what}", where=path, fix="give the path of a file")


def _neighbours(path: Path) -> str:
    try:
        names = [file.name for file in path.parent.iterdir()]
    except OSError:
        return f"its folder {str(path.parent)!r} cannot be opened either"
    return did_you_mean(path.name, names) if names else "its folder is empty"


def _expect(wanted: Kind, found: Kind, path: Path) -> None:
    if found != wanted:
        raise WeightsError(f"this is a {found} file, not {wanted}", where=path, fix="open it with read_tensors")


def _kind_of(file: BinaryIO, path: Path) -> Kind:
    """One of the three kinds, from the first bytes and, for a zip, the names of its records."""
    head = file.read(512)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _kind_of_zip(open_zip(file, path))
    if head[8:9] == b"{":
        return "safetensors"
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    raise _foreign(head, file.read(1), path)


def _kind_of_zip(archive: CheckedZip) -> Kind:
    names = archive.names
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    for marks, what in _FOREIGN_ZIPS:
        if any(mark in f"/{name}" for name in names for mark in marks):
            raise UnsafeFileError(f"this is {what}, which carries code", where=archive.where, fix=RESAVE)
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    raise WeightsError("a zip file, but neither .npz nor a torch checkpoint", where=archive.where, fix=RESAVE)


_FOREIGN_ZIPS = (
    (("/code/", "/constants.pkl"), "a TorchScript program"),
    (("/archive_format", "/models/", "/serialized_exported_program", "/archive_version"), "a torch.export program"),
)


def _foreign(head: bytes, last: bytes, path: Path) -> WeightsError:
    """The error for a file of no kind we open, named as well as its first bytes allow."""
    if head[:1] == b"\x80" or (last == b"." and head[:1] in _TEXT_PICKLE_STARTS):
        return UnsafeFileError("this is a bare pickle, which can run code", where=path, fix=RESAVE)
    if head[257:262] == b"ustar":
        return UnsafeFileError("this is a tar file, the oldest torch format", where=path, fix=RESAVE)
    if _looks_like_onnx(head):
        return WeightsError("this is an ONNX file, a whole program", where=path, fix="give the weights it came from")
    for start, what, fix in _KNOWN_STARTS:
        if head.startswith(start):
            return WeightsError(f"this is {what}", where=path, fix=fix)
    return WeightsError("not a weights file of a known kind", where=path, fix="give .safetensors, .npz or .pt weights")


_TEXT_PICKLE_STARTS = tuple(bytes([byte]) for byte in b"(cd]})lIiNVS")
_KNOWN_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the weights", "run `git lfs pull`"),
    (b"\x93NUMPY", "a single .npy array", "save named arrays with numpy.savez"),
    (b"\x89HDF", "an HDF5 file", "convert it to safetensors"),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"<", "a web page, not the weights", "download the file itself"),
)


def _looks_like_onnx(head: bytes) -> bool:
    """A protobuf that begins with a small ir_version (field 1) and goes on with another field of ModelProto."""
    return len(head) > 2 and head[0] == 0x08 and 1 <= head[1] < 64 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42"
