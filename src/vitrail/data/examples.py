"""Pictures with labels: what every source of data becomes, and all that the rest of the program sees of it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Pair
from vitrail.data.images import open_image, to_array
from vitrail.errors import ConfigError, VitrailError

SPLITS = ("train", "val", "test")
NO_LABEL = -1

Pixels = NDArray[np.uint8]  # rows x columns x channels
Indices = NDArray[np.int64]  # of pictures


class Pictures(Protocol):
    """Many pictures, each opened when it is asked for."""

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """As a person would find it: a path, a shard and its member, `images[12]`."""
        ...

    def read(self, index: int, *, channels: int | None = None, draft: Pair | None = None) -> Pixels:
        """Decoded, rows x columns x channels, 0 to 255. A picture that cannot be opened is an `ImageError`.

        `channels` 1 or 3 turns it grey or coloured; `draft=(rows, columns)` allows a smaller decode, never below that.
        """
        ...


@dataclass(frozen=True)
class FilePictures:
    """Picture files, by their paths."""

    paths: Sequence[Path]

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        return str(self.paths[index])

    def read(self, index: int, *, channels: int | None = None, draft: Pair | None = None) -> Pixels:
        return to_array(open_image(self.paths[index], draft=draft), channels)


@dataclass(frozen=True)
class ArrayPictures:
    """Pictures of one size in memory: N x rows x columns x channels, any number of channels."""

    pixels: Pixels
    label: str = "images"

    def __len__(self) -> int:
        return len(self.pixels)

    def name(self, index: int) -> str:
        return f"{self.label}[{index}]"

    def read(self, index: int, *, channels: int | None = None, draft: Pair | None = None) -> Pixels:  # noqa: ARG002
        return as_channels(self.pixels[index], channels)


class LeftOut(NamedTuple):
    """A picture that is not used, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Examples:
    """Pictures, what is on them, and which split each belongs to.

    `targets` is N class numbers (`NO_LABEL` where unknown), or N x classes of 0 and 1 where a picture can have several
    labels. A class number is a place in `classes`, whose names travel with every model trained on them.
    """

    name: str
    pictures: Pictures
    targets: NDArray[np.int64]
    classes: tuple[str, ...]
    splits: Mapping[str, Indices]  # of SPLITS, those there are: indices into pictures
    groups: tuple[str, ...] | None = None  # one a picture; a group is never torn apart by a split
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()  # what was found and decided, in words for the user

    def __post_init__(self) -> None:
        assert len(self.targets) == len(self.pictures)
        assert self.groups is None or len(self.groups) == len(self.pictures)
        assert set(self.splits) <= set(SPLITS)

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def multi_label(self) -> bool:
        return self.targets.ndim == 2

    def split(self, name: str) -> Indices:
        """The indices of a split; one that is not there is an error that names those that are."""
        if name not in self.splits:
            raise ConfigError(f"{self.name} has no split {name!r}", fix="it has " + ", ".join(self.splits))
        return self.splits[name]

    def replace(self, **changes: Any) -> Examples:
        return dataclasses.replace(self, **changes)

    def without(self, bad: Mapping[int, VitrailError]) -> Examples:
        """The same but for some pictures, which are named in `left_out`. Indices of the others stay as they are."""
        gone = np.fromiter(bad, np.int64, len(bad))
        named = tuple(LeftOut(self.pictures.name(i), str(error)) for i, error in bad.items())
        kept = {name: indices[~np.isin(indices, gone)] for name, indices in self.splits.items()}
        return self.replace(splits=kept, left_out=(*self.left_out, *named))

    def fingerprint(self) -> str:
        """The same for the same names, labels, classes and splits; kept in the model file."""
        digest = hashlib.sha256("\n".join((*self.classes, "")).encode(errors="surrogateescape"))
        for split, indices in sorted(self.splits.items()):
            digest.update(split.encode())
            for index in indices:
                line = f"{self.pictures.name(int(index))}\0{self.targets[index].tolist()}\n"
                digest.update(line.encode(errors="surrogateescape"))  # file names need not be UTF-8
        return digest.hexdigest()


def as_channels(pixels: Pixels, channels: int | None) -> Pixels:
    """Grey to colour by repeating, colour to grey by Rec. 601 luma as Pillow does; other numbers must agree."""
    have = pixels.shape[-1]
    if channels in (None, have):
        return pixels
    if channels == 3 and have == 1:
        return np.repeat(pixels, 3, axis=-1)
    if channels == 1 and have == 3:
        luma = (pixels.astype(np.uint32) @ np.array([19595, 38470, 7471], np.uint32) + 0x8000) >> 16
        return luma.astype(np.uint8)[..., None]
    raise ConfigError(f"the pictures have {have} channels, not {channels}", fix=f"use channels={have}")
