"""Pictures that come as one array: idx files (MNIST's own) and NumPy's .npz."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import ArrayPictures, Examples, Pixels
from vitrail.data.labels import SPLIT_WORDS, Row, assemble, class_names_beside, listed, naming, numbered
from vitrail.errors import FileError

Array = NDArray[Any]

MAX_BYTES = 32 * 10**9  # of one array: more is a mistake in a header rather than a data set
_GZIP_LIMIT = 1032  # deflate cannot expand more than this

_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_SPLITS = {**SPLIT_WORDS, "t10k": "test"}
_IMAGE_WORDS = frozenset({"x", "image", "images", "data"})
_LABEL_WORDS = frozenset({"y", "label", "labels", "target", "targets"})
_CLASS_WORDS = ("classes", "class_names")


class Part(NamedTuple):
    """One split: pictures N x rows x columns x channels, and labels as names (none: unlabelled)."""

    split: str | None
    pixels: Pixels
    labels: list[tuple[str, ...]] | None
    columns: int = 0  # of multi-label targets


def is_idx(path: Path) -> bool:
    return re.search(r"[-.]idx\d[-.]ubyte(\.gz)?$", path.name) is not None


def open_idx(source: Path, *, labelled: bool = True) -> Examples:
    """An images file, with its labels file beside it; or a folder of such pairs, one a split."""
    folder = source if source.is_dir() else source.parent
    images = sorted(p for p in folder.iterdir() if is_idx(p) and "images" in p.name) if source.is_dir() else [source]
    if not images:
        raise FileError("labels but no pictures", where=source, fix="put train-images-idx3-ubyte there")
    parts = []
    for path in images:
        labels = _read_labels_beside(path) if labelled else None
        parts.append(_part(_named_split(path.name), read_idx(path), labels, path))
    _check_splits(source, parts)
    return _assemble(source, parts, class_names_beside(folder))


def open_npz(path: Path, *, labelled: bool = True) -> Examples:
    """`x_train, y_train, x_test, y_test`, `train_images, train_labels ...`, or `images, labels`; `classes` if there."""
    arrays = read_npz(path)
    found: dict[str | None, dict[str, Array]] = {}
    for name, array in arrays.items():
        words = re.split(r"[_\-./]", name.lower())
        kind = "images" if _IMAGE_WORDS.intersection(words) else "labels" if _LABEL_WORDS.intersection(words) else None
        if kind and found.setdefault(_named_split(name), {}).setdefault(kind, array) is not array:
            raise _unknown_names(path, arrays, f"several arrays of {kind} for one split")
    parts = []
    for split, pair in found.items():
        if "images" not in pair or (labelled and "labels" not in pair):
            missing = "labels" if "images" in pair else "images"
            raise _unknown_names(path, arrays, f"no {missing}" + (f" for {split}" if split else ""))
        parts.append(_part(split, pair["images"], pair["labels"] if labelled else None, path))
    if not parts:
        raise _unknown_names(path, arrays, "no pictures")
    _check_splits(path, parts)
    names = next((arrays[name].astype(str).tolist() for name in _CLASS_WORDS if name in arrays), None)
    return _assemble(path, parts, names)


def as_pixels(array: Array, where: object) -> Pixels:
    """N x rows x columns (x channels) of 8 bits, 16 bits or 0 to 1, as N x rows x columns x channels of 8 bits."""
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise FileError(f"pictures of shape {array.shape}", where=where, fix="use N x rows x columns (x channels)")
    if array.ndim == 3:
        array = array[..., None]
    elif array.shape[1] in (1, 3) and array.shape[-1] not in (1, 3):
        array = np.moveaxis(array, 1, -1)  # channels first, as torch has them
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return (array >> 8).astype(np.uint8)
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if low >= 0 and high <= 1:
            return np.rint(array * 255).astype(np.uint8)
        raise FileError(f"values from {low:g} to {high:g}", where=where, fix="scale them to 0 ... 1, or use uint8")
    raise FileError(f"pictures of type {array.dtype}", where=where, fix="use uint8, uint16, or floats from 0 to 1")


# idx


def read_idx(path: Path) -> Array:
    """The array in an idx file, packed with gzip or not; its size is checked before memory is taken."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                dtype, shape = _idx_header(stream, path)
                size = _bytes(dtype, shape)
                if size > min(MAX_BYTES, path.stat().st_size * (_GZIP_LIMIT if packed else 1)):
                    raise _cut_short(path, shape)
                data = stream.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"cannot be read ({error})", where=path, fix="copy or download it again") from error
    if len(data) != size:
        raise _cut_short(path, shape)
    return np.frombuffer(data, dtype).reshape(shape)


def _idx_header(stream: IO[bytes] | gzip.GzipFile, path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    start = stream.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _IDX_TYPES or not 1 <= start[3] <= 4:
        raise FileError("not an idx file", where=path, fix="give a file such as train-images-idx3-ubyte")
    sides = stream.read(4 * start[3])
    if len(sides) < 4 * start[3]:
        raise FileError("an idx file cut short in its header", where=path, fix="copy or download it again")
    return np.dtype(_IDX_TYPES[start[2]]), tuple(np.frombuffer(sides, ">u4").tolist())


def _read_labels_beside(images: Path) -> Array:
    name = re.sub(r"idx\d", "idx1", images.name.replace("images", "labels"))
    beside = [images.with_name(name), images.with_name(name + ".gz"), images.with_name(name.removesuffix(".gz"))]
    for path in beside:
        if path.is_file() and path != images:
            return read_idx(path)
    raise FileError(f"no labels: {beside[0].name} is not beside it", where=images, fix="put the labels file there")


# npz


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of an .npz; objects are refused, and sizes checked before memory is taken."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {info.filename.removesuffix(".npy"): _read_member(archive, info) for info in archive.infolist()}
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"not a plain .npz file ({error})", where=path, fix="write it with numpy.savez") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    if info.file_size > min(MAX_BYTES, info.compress_size * _GZIP_LIMIT):
        raise ValueError(f"{info.filename} claims {info.file_size:,} bytes")
    with archive.open(info) as stream:
        major, _ = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = header(stream)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects, which could run code")
        if _bytes(dtype, shape) != info.file_size - stream.tell():
            raise ValueError(f"{info.filename} does not have the size it claims")
        return np.frombuffer(stream.read(), dtype).reshape(shape, order="F" if by_column else "C")


def _unknown_names(path: Path, arrays: Mapping[str, Array], what: str) -> FileError:
    return FileError(
        f"{what} (it holds {listed(arrays)})",
        where=path,
        fix="name them x_train, y_train, x_test, y_test or images, labels",
    )


# Both


def _bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    size = dtype.itemsize
    for side in shape:
        size *= side
    return size


def _cut_short(path: Path, shape: tuple[int, ...]) -> FileError:
    return FileError(
        f"its header claims {' x '.join(map(str, shape))}, which is not what follows",
        where=path,
        fix="copy or download it again",
    )


def _named_split(name: str) -> str | None:
    return next((_SPLITS[word] for word in re.split(r"[^a-z0-9]+", name.lower()) if word in _SPLITS), None)


def _part(split: str | None, images: Array, labels: Array | None, where: object) -> Part:
    pixels = as_pixels(images, where)
    if labels is None:
        return Part(split, pixels, None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(labels) != len(pixels):
        what = f"{len(pixels):,} pictures but {len(labels):,} labels" + (f" in {split}" if split else "")
        raise FileError(what, where=where, fix="give one label a picture")
    return Part(split, pixels, _as_names(labels, where), labels.shape[1] if labels.ndim == 2 else 0)


def _as_names(labels: Array, where: object) -> list[tuple[str, ...]]:
    """N class numbers or names, or N x classes of 0 and 1."""
    if labels.ndim == 1 and labels.dtype.kind in "iuU":
        return [(label,) for label in labels.astype(str).tolist()]
    if labels.ndim == 2 and labels.dtype.kind in "iub" and np.isin(labels, (0, 1)).all():
        return [tuple(str(number) for number in np.flatnonzero(row)) for row in labels]
    raise FileError(
        f"labels of type {labels.dtype} and shape {labels.shape}",
        where=where,
        fix="use N class numbers or names, or N x classes of 0 and 1",
    )


def _check_splits(source: Path, parts: list[Part]) -> None:
    splits = [part.split for part in parts]
    if len(parts) > 1 and (None in splits or len(set(splits)) < len(splits)):
        raise FileError(
            "several arrays of pictures, but not one a split", where=source, fix="name them by train, val, test"
        )
    for part in parts:
        if part.pixels.shape[1:] != parts[0].pixels.shape[1:]:
            raise FileError("splits with pictures of different shapes", where=source, fix="give them one shape")


def _assemble(source: Path, parts: list[Part], names: list[str] | None) -> Examples:
    pixels = parts[0].pixels if len(parts) == 1 else np.concatenate([part.pixels for part in parts])
    pictures = ArrayPictures(pixels, label=source.name)
    columns = parts[0].columns
    order = names or [str(number) for number in range(columns)] or None
    if all(part.labels is None for part in parts):
        order = None
    labels = [one for part in parts for one in part.labels or [()] * len(part.pixels)]
    called = naming((label for several in labels for label in several), names, source)
    splits = [part.split for part in parts for _ in part.pixels]
    rows = [Row(tuple(called[label] for label in s), split) for s, split in zip(labels, splits, strict=True)]
    return assemble(str(source), pictures, rows, order=order, sort=numbered, multi_label=columns > 0)
