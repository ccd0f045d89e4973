"""Pictures in tar files, as WebDataset writes them: `0001.jpg` with `0001.cls` or `0001.json`, read where they lie."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Pair
from vitrail.data.examples import Examples, Pixels
from vitrail.data.images import DEFAULT_LIMITS, open_image, to_array
from vitrail.data.labels import (
    PICTURE_SUFFIXES,
    SPLIT_WORDS,
    Row,
    assemble,
    class_names_beside,
    count,
    listed,
    naming,
    numbered,
)
from vitrail.data.manifest import is_there
from vitrail.errors import FileError, ImageError

_MAX_LABEL_BYTES = 1_000_000
_MAX_SHARDS = 100_000


class _Place(NamedTuple):
    """Where a picture's bytes are."""

    shard: int
    member: str
    offset: int
    size: int


@dataclass(frozen=True)
class ShardPictures:
    """Pictures inside uncompressed tar files. Each read opens its file anew, so any process can do it."""

    shards: tuple[Path, ...]
    members: tuple[str, ...]
    places: NDArray[np.int64]  # N x 3: shard, offset, size

    def __len__(self) -> int:
        return len(self.members)

    def name(self, index: int) -> str:
        return f"{self.shards[self.places[index, 0]]}/{self.members[index]}"

    def read(self, index: int, *, channels: int | None = None, draft: Pair | None = None) -> Pixels:
        shard, offset, size = self.places[index].tolist()
        try:
            if size > DEFAULT_LIMITS.max_bytes:
                raise ImageError(f"{size:,} bytes is over the limit", fix="save it smaller, as JPEG")
            with self.shards[shard].open("rb") as file:
                file.seek(offset)
                return to_array(open_image(file.read(size), draft=draft), channels)
        except ImageError as error:
            raise ImageError(error.what, where=self.name(index), fix=error.fix) from error
        except OSError as error:
            reason = f"the shard cannot be read ({error.strerror})"
            raise ImageError(reason, where=self.name(index), fix="check the path and the disk") from error


def open_shards(source: Path, *, labelled: bool = True) -> Examples:
    """A tar, a folder of them, or a pattern `train-{000..007}.tar`; splits by the words train, val, test in names."""
    shards = find_shards(source)
    splits = _splits(source, shards)
    places, labels, passed_over = list[_Place](), list[tuple[str, ...]](), 0
    for number, shard in enumerate(shards):
        found, skipped = _index(shard, number, labelled)
        places += [place for place, _ in found]
        labels += [label for _, label in found]
        passed_over += skipped
    if not places:
        fix = "it should hold 0001.jpg with 0001.cls, and so on"
        raise FileError("no pictures in the tar files", where=source, fix=fix)
    names = (class_names_beside(shards[0].parent) or class_names_beside(source)) if labelled else None
    called = naming((label for several in labels for label in several), names, source)
    rows = [Row(tuple(called[c] for c in own), splits[place.shard]) for own, place in zip(labels, places, strict=True)]
    table = np.array([(place.shard, place.offset, place.size) for place in places], np.int64)
    pictures = ShardPictures(tuple(shards), tuple(place.member for place in places), table)
    notes = [f"{count(len(shards), 'shard')}"]
    if passed_over:
        notes.append(f"links and devices in the tar files, not followed: {passed_over:,}")
    several = any(len(row.labels) > 1 for row in rows)
    return assemble(str(source), pictures, rows, order=names, sort=numbered, multi_label=several, notes=notes)


def find_shards(source: Path) -> list[Path]:
    """The tar files that a path, folder or pattern means, in order."""
    if is_there(source) and source.is_dir():
        shards = sorted(path for path in source.rglob("*.tar") if not path.name.startswith("."))
    else:
        shards = [Path(name) for name in expand(str(source))]
    missing = [str(path) for path in shards if not is_there(path)]
    if missing or not shards:
        raise FileError(f"no such shard: {listed(missing)}", where=source, fix="check the pattern")
    return shards


def expand(pattern: str) -> list[str]:
    """`a-{000..002}.tar` as a-000.tar, a-001.tar, a-002.tar."""
    found = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if found is None:
        return [pattern]
    first, last = int(found[1]), int(found[2])
    if not 0 <= last - first < _MAX_SHARDS:
        raise FileError(f"a range from {first} to {last}", where=pattern, fix="write it as {000..007}")
    width = len(found[1]) if found[1].startswith("0") else 0
    filled = (
        pattern[: found.start()] + f"{number:0{width}d}" + pattern[found.end() :] for number in range(first, last + 1)
    )
    return [name for one in filled for name in expand(one)]


def _splits(source: Path, shards: Sequence[Path]) -> list[str | None]:
    """By a word in the shard's name or its folder's; all shards have one, or none has."""
    splits = [_split(path) for path in shards]
    if None in splits and len(set(splits)) > 1:
        odd = [path.name for path, split in zip(shards, splits, strict=True) if split is None]
        fix = "write train, val or test in every name, or in none"
        raise FileError(f"shards of no split beside others: {listed(odd)}", where=source, fix=fix)
    return splits


def _split(path: Path) -> str | None:
    words = [*re.split(r"[^a-z]+", path.stem.lower()), path.parent.name.lower()]
    return next((SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS), None)


def _index(shard: Path, number: int, labelled: bool) -> tuple[list[tuple[_Place, tuple[str, ...]]], int]:
    """Every picture of a shard with its labels, from the tar's headers; and how many links were passed over."""
    pictures, labels, skipped = dict[str, _Place](), dict[str, tuple[str, ...]](), 0
    try:
        with tarfile.open(shard, "r:") as archive:
            end = shard.stat().st_size
            for member in archive:
                if member.isdir() or PurePosixPath(member.name).name.startswith("."):
                    continue
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
                    skipped += 1
                    continue
                if member.offset_data + member.size > end:
                    raise tarfile.ReadError("unexpected end of data")
                _sort_in(archive, member, number, pictures, labels if labelled else None)
    except (OSError, EOFError, ValueError, OverflowError, tarfile.TarError) as error:
        raise FileError(f"cannot be read as a shard ({error})", where=shard, fix=_remedy(shard)) from error
    bare = [place.member for key, place in pictures.items() if labelled and key not in labels]
    if bare:
        fix = "add a .cls (number or name) or a .json with a 'label' of the same name"
        raise FileError(f"{count(len(bare), 'picture')} without a label: {listed(bare)}", where=shard, fix=fix)
    return [(place, labels.get(key, ())) for key, place in pictures.items()], skipped


def _sort_in(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    shard: int,
    pictures: dict[str, _Place],
    labels: dict[str, tuple[str, ...]] | None,
) -> None:
    folder, _, file = member.name.rpartition("/")
    stem, _, kind = file.partition(".")
    key = f"{folder}/{stem}"
    if "." + kind.rpartition(".")[2].lower() in PICTURE_SUFFIXES:
        if key in pictures:
            raise ValueError(f"two pictures named {stem!r}")
        pictures[key] = _Place(shard, member.name, member.offset_data, member.size)
    elif (
        labels is not None and kind.lower() in ("cls", "json") and (found := _read_label(archive, member, kind.lower()))
    ):
        labels[key] = found


def _read_label(archive: tarfile.TarFile, member: tarfile.TarInfo, kind: str) -> tuple[str, ...]:
    """A class number or name; of JSON, its `label`, which may be a list. A JSON without one says nothing."""
    if member.size > _MAX_LABEL_BYTES:
        raise ValueError(f"{member.name} is too large for a label")
    content = archive.extractfile(member)
    assert content is not None
    try:
        text = content.read().decode("utf-8-sig").strip()
        value: Any = {"label": text or None} if kind == "cls" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{member.name} is not {'JSON' if kind == 'json' else 'UTF-8 text'}") from error
    label = value.get("label") if isinstance(value, dict) else None
    several = label if isinstance(label, list) else [] if label is None else [label]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in several):
        raise ValueError(f"{member.name} has a label that is neither a number nor a name")
    return tuple(dict.fromkeys(str(one) for one in several))


def _remedy(shard: Path) -> str:
    with shard.open("rb") as file:
        packed = file.read(2) in (b"\x1f\x8b", b"BZ", b"\xfd7", b"\x28\xb5")
    return "unpack it first (gunzip): only plain tar files can be read from the middle" if packed else "write it again"
