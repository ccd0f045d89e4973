"""Pictures decoded once and kept in memory, so that an epoch costs no decoding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from vitrail.config import Pair, Preprocessing
from vitrail.data.examples import Examples, Indices, Pictures, Pixels, as_channels
from vitrail.data.prepare import covering, draft_size, resize
from vitrail.data.reading import read_or_why
from vitrail.errors import ImageError

_SAMPLE = 32  # pictures read to estimate the size of all, or how long they take
_BLOCK = 8  # pictures a thread reads at a time: small ones take less time than handing them over


class CachedPictures:
    """The pictures of `source`, some of them in memory, no larger than is needed; the others are read as before."""

    def __init__(self, source: Pictures, kept: dict[int, Pixels]) -> None:
        self._source, self._kept = source, kept

    def __len__(self) -> int:
        return len(self._source)

    def name(self, index: int) -> str:
        return self._source.name(index)

    def read(self, index: int, *, channels: int | None = None, draft: Pair | None = None) -> Pixels:
        if index in self._kept:
            return as_channels(self._kept[index], channels)
        return self._source.read(index, channels=channels, draft=draft)

    @property
    def nbytes(self) -> int:
        return sum(pixels.nbytes for pixels in self._kept.values())


def fill_cache(
    examples: Examples,
    indices: Indices,
    preprocessing: Preprocessing,
    channels: int,
    *,
    limit_bytes: int,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[CachedPictures, dict[int, ImageError]] | None:
    """Read some pictures once: them, and those that could not be opened; None if they need more than `limit_bytes`.

    A picture is kept at the size to which `prepare` resizes before it crops, or as it is where that is smaller; so what
    `prepare` makes of it is the same. `progress` is told, in this thread, how many are done.
    """
    wanted = indices.tolist()
    read = partial(_read_small, examples.pictures, preprocessing, channels)
    if _estimate(read, wanted) > limit_bytes:
        return None
    kept: dict[int, Pixels] = {}
    bad: dict[int, ImageError] = {}
    used = 0
    for index, picture in zip(wanted, _in_threads(read, wanted, threads), strict=True):
        if isinstance(picture, ImageError):
            bad[index] = picture
        else:
            kept[index] = picture
            used += picture.nbytes
        if used > limit_bytes:
            return None
        if progress is not None:
            progress(len(kept) + len(bad))
    return CachedPictures(examples.pictures, kept), bad


class Filling(NamedTuple):
    threads: int
    seconds: float


def fastest_filling(
    examples: Examples, indices: Indices, preprocessing: Preprocessing, channels: int, cores: int
) -> Filling:
    """How `fill_cache` would read these pictures soonest, from a few of them: small ones with one thread, because only
    decoding lets others run."""
    sample, read = _spread(indices.tolist()), partial(_read_small, examples.pictures, preprocessing, channels)
    read(sample[0])  # the first is slow
    found = []
    for threads in {1, cores}:
        start = time.monotonic()
        done = len(list(_in_threads(read, sample, threads)))
        found.append(Filling(threads, (time.monotonic() - start) * len(indices) / done))
    return min(found, key=lambda filling: filling.seconds)


def _read_small(pictures: Pictures, preprocessing: Preprocessing, channels: int, index: int) -> Pixels | ImageError:
    pixels = read_or_why(pictures, index, channels, draft_size(preprocessing))
    if isinstance(pixels, ImageError):
        return pixels
    shape = covering(pixels.shape[:2], preprocessing)
    return pixels if shape[0] > pixels.shape[0] else resize(pixels, shape, preprocessing.resize)


def _estimate(read: Callable[[int], Pixels | ImageError], indices: Sequence[int]) -> float:
    """Bytes of all, from a few spread over them."""
    sample = [read(index) for index in _spread(indices)]
    sizes = [picture.nbytes for picture in sample if not isinstance(picture, ImageError)]
    return len(indices) * sum(sizes) / max(1, len(sizes))


def _spread(indices: Sequence[int]) -> Sequence[int]:
    return indices[:: max(1, len(indices) // _SAMPLE)]


def _in_threads(
    read: Callable[[int], Pixels | ImageError], indices: Sequence[int], threads: int
) -> Iterator[Pixels | ImageError]:
    """In order. Decoding in C lets other threads run; on an error or an early end the rest is not begun."""
    blocks = [indices[start : start + _BLOCK] for start in range(0, len(indices), _BLOCK)]
    executor = ThreadPoolExecutor(threads)
    try:
        for pictures in executor.map(lambda block: [read(index) for index in block], blocks):
            yield from pictures
    finally:
        executor.shutdown(cancel_futures=True)
