"""As Pillow resizes, but for a rounding here and there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.picture_kinds import draw
from vitrail.data import quick_resize
from vitrail.data.prepare import resize
from vitrail.data.quick_resize import resize_quickly

sides = st.tuples(st.integers(1, 60), st.integers(1, 60))


@given(
    before=sides,
    after=sides,
    channels=st.sampled_from([1, 2, 3, 4, 6]),
    method=st.sampled_from(["bicubic", "bilinear", "nearest"]),
    seed=st.integers(0, 100),
)
def test_as_pillow(before: tuple[int, int], after: tuple[int, int], channels: int, method: str, seed: int) -> None:
    pixels = draw(*before, channels, seed=seed)
    quick, known = resize_quickly(pixels, after, method), resize(pixels, after, method)
    assert (quick.shape, quick.dtype) == (known.shape, known.dtype)
    assert np.abs(quick.astype(int) - known).max() <= 2


def test_a_part_of_a_picture_that_may_not_be_written_to() -> None:
    pixels = draw(40, 50)
    pixels.flags.writeable = False
    part = pixels[3:20, 5:31]
    assert np.abs(resize_quickly(part, (32, 32), "bicubic").astype(int) - resize(part, (32, 32), "bicubic")).max() <= 2


def test_without_the_instructions_it_is_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_resize, "_FAST", False)
    pixels = draw(40, 50)
    np.testing.assert_array_equal(resize_quickly(pixels, (32, 24), "bicubic"), resize(pixels, (32, 24), "bicubic"))
