"""Pictures read once: what is made of them stays the same, bad ones are named, the limit is kept."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from data.picture_kinds import draw, encode
from vitrail.config import Preprocessing
from vitrail.data.cache import CachedPictures, fastest_filling, fill_cache
from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.data.prepare import draft_size, prepare
from vitrail.errors import ImageError

RULE = Preprocessing((24, 24), (0.5,), (0.5,), crop=0.75)
SHAPES = [(200, 300), (300, 200), (32, 32), (20, 90), (10, 12), (64, 64)]


@pytest.fixture
def examples(tmp_path: Path) -> Examples:
    paths = [tmp_path / f"{number}.jpg" for number in range(len(SHAPES))]
    for path, shape in zip(paths, SHAPES, strict=True):
        path.write_bytes(encode(draw(*shape), "JPEG"))
    return examples_of(FilePictures(paths))


def examples_of(pictures: FilePictures | ArrayPictures) -> Examples:
    return Examples("x", pictures, np.zeros(len(pictures), np.int64), ("a",), {"train": np.arange(len(pictures))})


def filled(examples: Examples, count: int, **options: object) -> CachedPictures:
    found = fill_cache(examples, np.arange(count), RULE, 3, **{"limit_bytes": 10**7, **options})
    assert found is not None
    assert found[1] == {}
    return found[0]


@pytest.mark.parametrize("threads", [1, 4])
def test_prepared_the_same_and_no_larger_than_needed(examples: Examples, threads: int) -> None:
    cached = filled(examples, len(SHAPES), threads=threads)
    for index, shape in enumerate(SHAPES):
        kept = cached.read(index)
        read = examples.pictures.read(index, draft=draft_size(RULE))
        np.testing.assert_array_equal(prepare(kept, RULE), prepare(read, RULE))
        assert min(kept.shape[:2]) <= min(32, *shape)
        assert cached.name(index) == examples.pictures.name(index)
    assert len(cached) == len(SHAPES)


def test_files_are_read_once_and_the_others_as_before(examples: Examples) -> None:
    cached = filled(examples, 2)
    for path in examples.pictures.paths:  # type: ignore[attr-defined]
        path.unlink()
    assert [cached.read(0, channels=channels).shape for channels in (None, 1, 3)] == [(32, 48, n) for n in (3, 1, 3)]
    with pytest.raises(ImageError, match="no such file"):
        cached.read(2)


def test_bad_pictures_are_collected(examples: Examples) -> None:
    examples.pictures.paths[1].write_bytes(b"")  # type: ignore[attr-defined]
    done: list[int] = []
    found = fill_cache(examples, np.arange(6), RULE, 3, limit_bytes=10**7, threads=2, progress=done.append)
    assert found is not None
    cached, bad = found
    assert list(bad) == [1]
    assert "1.jpg: the file is empty" in str(bad[1])
    assert bad[1].__traceback__ is bad[1].__cause__ is bad[1].__context__ is None  # which would keep the file's bytes
    assert done == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ImageError):
        cached.read(1)


def test_too_much_is_refused_before_it_is_read() -> None:
    reads = []

    class Counted(ArrayPictures):
        def read(self, index: int, **options: object) -> np.ndarray:
            reads.append(index)
            return super().read(index, **options)  # type: ignore[arg-type]

    examples = examples_of(Counted(np.zeros((1000, 32, 32, 3), np.uint8)))
    everything = 1000 * 32 * 32 * 3
    assert fill_cache(examples, np.arange(1000), RULE, 3, limit_bytes=everything - 1) is None
    assert len(reads) < 50
    found = fill_cache(examples, np.arange(1000), RULE, 3, limit_bytes=everything)
    assert found is not None
    assert found[0].nbytes == everything


def test_an_estimate_that_was_too_low_does_not_break_the_limit() -> None:
    class Growing(ArrayPictures):
        def read(self, index: int, **options: object) -> np.ndarray:
            side = 10 if index % 2 == 0 else 32
            return super().read(index, **options)[:side, :side]  # type: ignore[arg-type]

    examples = examples_of(Growing(np.zeros((64, 32, 32, 3), np.uint8)))
    assert fill_cache(examples, np.arange(64), RULE, 3, limit_bytes=64 * 600) is None


def test_no_thread_is_left_behind(examples: Examples) -> None:
    before = threading.active_count()
    filled(examples, 6, threads=4)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled(examples, 6, threads=4, progress=stop)
    assert threading.active_count() == before


def test_a_few_pictures_tell_how_to_read_all_and_how_long_that_takes() -> None:
    class Slow(ArrayPictures):
        def read(self, index: int, **options: object) -> np.ndarray:
            time.sleep(0.01)
            return super().read(index, **options)  # type: ignore[arg-type]

    class OneByOne(Slow):
        taken, alone = threading.Lock(), threading.active_count() + 1

        def read(self, index: int, **options: object) -> np.ndarray:
            with self.taken:
                time.sleep(0.03 if threading.active_count() > self.alone else 0)  # threads are in each other's way
                return super().read(index, **options)

    pixels = np.zeros((10_000, 4, 4, 3), np.uint8)
    together = fastest_filling(examples_of(Slow(pixels)), np.arange(10_000), RULE, 3, cores=4)
    assert together.threads == 4
    assert together.seconds > 0.9 * 10_000 * 0.01 / 4  # sleeping takes no less
    assert fastest_filling(examples_of(OneByOne(pixels)), np.arange(10_000), RULE, 3, cores=4).threads == 1
