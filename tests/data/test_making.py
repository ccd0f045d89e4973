"""Batches that are made together are what they are alone, whichever pictures can be opened, and when."""

from __future__ import annotations

import numpy as np
import pytest

from vitrail.config import Preprocessing
from vitrail.data.augment import Augmentation
from vitrail.data.examples import Pixels
from vitrail.data.making import Done, Job, Maker
from vitrail.errors import ConfigError, ImageError, VitrailError

SIZE = (16, 12)
ALL = Augmentation(crop="resized", flip=True, policy="trivial-augment", jitter=0.3, erase=0.5)


class Flaky:
    """Twenty pictures of noise. `bad` cannot be opened from a number of times on."""

    def __init__(self, bad: dict[int, int]) -> None:
        self._bad, self._times = bad, dict.fromkeys(range(20), 0)

    def __len__(self) -> int:
        return 20

    def name(self, index: int) -> str:
        return f"{index}.png"

    def read(self, index: int, **_: object) -> Pixels:
        self._times[index] += 1
        if self._times[index] > self._bad.get(index, 100):
            raise ImageError("this is text", where=self.name(index))
        return np.random.default_rng(index).integers(0, 256, (20, 24, 3), dtype=np.uint8)


def make(draws: list[list[int]], bad: dict[int, int]) -> Done:
    maker = Maker(Flaky(bad), Preprocessing(SIZE, (0.5,) * 3, (0.5,) * 3), ALL, 3, seed=1)
    return maker(Job([np.array(batch, np.int64) for batch in draws], 4, SIZE))


@pytest.mark.parametrize("bad", [{}, {0: 0}, {2: 0, 7: 0, 8: 0, 9: 0}, dict.fromkeys(range(20), 0)], ids=len)
def test_together_as_alone(bad: dict[int, int]) -> None:
    draws = [[0, 1, 2], [], [7, 8], [9], [3, 4, 5, 6], []]
    together = make(draws, bad)
    assert sorted(together.bad) == sorted(set(bad) & {index for batch in draws for index in batch})
    for batch, wanted in zip(together.batches, draws, strict=True):
        (alone,) = make([wanted], bad).batches
        assert batch.indices.tolist() == [index for index in wanted if index not in bad]
        assert batch.pixels.shape == (len(batch.indices), *SIZE, 3)
        np.testing.assert_array_equal(batch.pixels, alone.pixels)


def test_a_picture_that_changes_while_it_is_used() -> None:
    """It comes twice, and only the first time it is one."""
    done = make([[3, 5, 23], [25, 4]], {3: 1})
    assert [batch.indices.tolist() for batch in done.batches] == [[3, 5], [5, 4]]
    assert list(done.bad) == [3]
    (first, second) = (batch.pixels[place] for batch, place in zip(done.batches, (1, 0), strict=True))
    assert (first != second).any()  # the second time it is augmented otherwise


def test_an_error_that_ends_the_run_is_a_value() -> None:
    class Wide(Flaky):
        def read(self, index: int, **_: object) -> Pixels:
            raise ConfigError(f"picture {index} has 5 channels, not 3", fix="use channels=5")

    maker = Maker(Wide({}), Preprocessing(SIZE, (0.5,) * 3, (0.5,) * 3), ALL, 3, seed=1)
    done = maker(Job([np.arange(3)], 0, SIZE))
    assert isinstance(done.error, VitrailError)
    assert (done.batches, done.bad) == ([], {})
