"""Known data sets as they lie in the cache: made from the published files, and checked by SHA-256.

A set of small pictures of one size is two arrays, mapped into memory when opened. A set of photos is a folder with a
table; there the published files are checked, before anything is taken from them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrail.data.arrays import read_idx
from vitrail.data.download import read_tar, sha256_file
from vitrail.data.examples import ArrayPictures, Examples, Pixels
from vitrail.data.labels import count, fit_classes
from vitrail.data.manifest import open_manifest
from vitrail.data.mat import read_mat
from vitrail.errors import FileError

Labels = NDArray[np.uint8]


class Photo(NamedTuple):
    """One picture of a set of photos, as published."""

    file: str
    content: bytes
    label: str
    split: str


@dataclass(frozen=True)
class ArraySet:
    """Pictures of one size, all splits one after the other."""

    files: tuple[str, ...]  # that a person can put there by hand
    read: Callable[[Path], tuple[Pixels, Labels]]  # the published files of a folder
    counts: Mapping[str, int]
    sums: Mapping[str, str]  # SHA-256 of the arrays' own bytes: "images", "labels"

    def prepare(self, raw: Path, into: Path) -> None:
        into.mkdir()
        for name, array in zip(("images", "labels"), self.read(raw), strict=True):
            self._check(name, array, raw)
            np.save(into / f"{name}.npy", array, allow_pickle=False)

    def open(self, name: str, folder: Path, classes: tuple[str, ...]) -> Examples:
        images, labels = (self._open(folder, what) for what in ("images", "labels"))
        splits, start = {}, 0
        for split, number in self.counts.items():
            splits[split] = np.arange(start, start + number)
            start += number
        return Examples(name, ArrayPictures(images, label=name), labels.astype(np.int64), classes, splits)

    def _open(self, folder: Path, what: str) -> NDArray[np.uint8]:
        path = folder / f"{what}.npy"
        try:
            array: NDArray[np.uint8] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise FileError(
                f"cannot be read ({error})", where=path, fix=f"remove {folder}, and fetch it again"
            ) from error
        self._check(what, array, path)
        return array

    def _check(self, what: str, array: NDArray[Any], where: Path) -> None:
        found = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        if found != self.sums[what] or len(array) != sum(self.counts.values()):
            raise _wrong(where, what, found, self.sums[what])


@dataclass(frozen=True)
class PhotoSet:
    """Pictures of many sizes, in files."""

    read: Callable[[Path], Iterator[Photo]]
    counts: Mapping[str, int]
    sums: Mapping[str, str]  # SHA-256 of the published files

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.sums)

    def prepare(self, raw: Path, into: Path) -> None:
        for file, expected in self.sums.items():
            if not (raw / file).is_file():
                raise FileError(f"{file} is not there", where=raw)
            if (found := sha256_file(raw / file)) != expected:
                raise _wrong(raw / file, file, found, expected)
        (into / "images").mkdir(parents=True)
        with (into / "data.csv").open("w", encoding="utf-8", newline="") as table:
            writer = csv.writer(table)
            writer.writerow(["path", "label", "split"])
            for photo in self.read(raw):
                (into / "images" / photo.file).write_bytes(photo.content)
                writer.writerow([f"images/{photo.file}", photo.label, photo.split])
        self._count(into, self._open(into))

    def open(self, name: str, folder: Path, classes: tuple[str, ...]) -> Examples:
        found = self._open(folder)
        self._count(folder, found)
        return fit_classes(found, classes).replace(name=name)

    def _open(self, folder: Path) -> Examples:
        return open_manifest(folder / "data.csv")

    def _count(self, folder: Path, found: Examples) -> None:
        for split, number in self.counts.items():
            if len(found.splits.get(split, ())) != number:
                what = f"{count(len(found.splits.get(split, ())), 'picture')} in {split}, not {number:,}"
                raise FileError(what, where=folder, fix="remove the folder, and fetch it again")


def _wrong(where: Path, what: str, found: str, expected: str) -> FileError:
    said = f"{what} refused: SHA-256 is {found[:16]}..., and should be {expected[:16]}..."
    return FileError(said, where=where, fix="remove it, and fetch it again")


# MNIST and its kind


MNIST_FILES = tuple(f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


def read_mnist(raw: Path) -> tuple[Pixels, Labels]:
    train, train_labels, test, test_labels = (read_idx(_packed_or_not(raw, name)) for name in MNIST_FILES)
    return np.concatenate([train, test])[..., None], np.concatenate([train_labels, test_labels])


def _packed_or_not(raw: Path, name: str) -> Path:
    for path in (raw / name, raw / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileError(f"{name} is not there", where=raw)


# CIFAR-10

CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
_CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def read_cifar10(raw: Path) -> tuple[Pixels, Labels]:
    """Toronto's binary files, or npm's one PNG a batch with a pixel a column and a picture a row."""
    if (raw / CIFAR_ARCHIVE).is_file():
        files = dict(read_tar(raw / CIFAR_ARCHIVE, lambda name: name.endswith(".bin")))
        rows = np.concatenate([np.frombuffer(_part(files, f"{b}.bin", raw), np.uint8) for b in _CIFAR_BATCHES])
        rows = rows[: len(rows) // 3073 * 3073].reshape(-1, 3073)
        return np.ascontiguousarray(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), rows[:, 0]
    try:
        images = [_picture_rows((raw / f"{batch}.png").read_bytes()) for batch in _CIFAR_BATCHES]
        labels = [json.loads((raw / f"{split}_lables.json").read_bytes()) for split in ("train", "test")]
        return np.concatenate(images).reshape(-1, 32, 32, 3), np.concatenate(labels).astype(np.uint8)
    except (OSError, ValueError) as error:
        raise FileError(f"not CIFAR-10 as it is known ({error})", where=raw) from error


def _part(files: Mapping[str, bytes], name: str, raw: Path) -> bytes:
    if name not in files:
        raise FileError(f"no {name} in the archive", where=raw)
    return files[name]


def _picture_rows(data: bytes) -> Pixels:
    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        if image.size != (1024, 10_000) or image.mode != "RGB":
            raise ValueError(f"a picture of {image.size}")
        return np.asarray(image)


# Oxford's flowers and pets


def read_flowers(names: tuple[str, ...]) -> Callable[[Path], Iterator[Photo]]:
    def read(raw: Path) -> Iterator[Photo]:
        labels, sets = read_mat(raw / "imagelabels.mat")["labels"], read_mat(raw / "setid.mat")
        parts = {"train": "trnid", "val": "valid", "test": "tstid"}
        split_of = {int(number): split for split, key in parts.items() for number in sets[key]}
        for file, content in read_tar(raw / "102flowers.tgz"):
            if found := re.fullmatch(r"image_(\d{5})\.jpg", file):
                number = int(found[1])
                yield Photo(file, content, names[labels[number - 1] - 1], split_of[number])

    return read


def read_pets(raw: Path) -> Iterator[Photo]:
    lists = dict(read_tar(raw / "annotations.tar.gz", lambda name: name in ("trainval.txt", "test.txt")))
    split_of = {}
    for file, split in (("trainval.txt", "train"), ("test.txt", "test")):
        split_of.update({line.split()[0]: split for line in lists[file].decode("ascii").splitlines() if line.strip()})
    for file, content in read_tar(raw / "images.tar.gz", lambda name: name.endswith(".jpg")):
        stem = file.removesuffix(".jpg")
        if stem in split_of:
            yield Photo(file, content, breed(stem), split_of[stem])


def breed(stem: str) -> str:
    """`american_bulldog_10` is an American Bulldog."""
    return stem.rpartition("_")[0].replace("_", " ").title()
