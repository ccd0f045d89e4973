"""Shapes that are drawn here: a data set, the same for the same seed, told by nothing but the outline."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.data.drawn import SHAPES, SIDE, draw_shape, draw_shapes
from vitrail.data.sources import open_data
from vitrail.errors import ConfigError, FileError


def test_it_is_a_data_set(tmp_path):
    path = draw_shapes(tmp_path / "new" / "shapes.npz", train=80, test=24)
    examples = open_data(path)
    assert examples.classes == tuple(SHAPES)
    assert {split: len(indices) for split, indices in examples.splits.items()} == {"train": 80, "test": 24}
    assert examples.pictures.read(0).shape == (SIDE, SIDE, 3)
    for split, each in (("train", 10), ("test", 3)):
        assert np.bincount(examples.targets[examples.split(split)]).tolist() == [each] * len(SHAPES)
    assert [p.name for p in path.parent.iterdir()] == ["shapes.npz"]


def test_the_seed_decides_and_no_picture_comes_twice(tmp_path):
    first, again, other = (
        open_data(draw_shapes(tmp_path / f"{number}.npz", train=40, test=40, seed=seed))
        for number, seed in enumerate((0, 0, 1))
    )
    np.testing.assert_array_equal(first.pictures.pixels, again.pictures.pixels)
    everything = np.concatenate([first.pictures.pixels, other.pictures.pixels]).reshape(160, -1)
    assert len(np.unique(everything, axis=0)) == 160


def test_too_few_and_no_place(tmp_path):
    with pytest.raises(ConfigError, match="test=3 pictures are too few; draw 8 or more"):
        draw_shapes(tmp_path / "shapes.npz", train=8, test=3)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        draw_shapes(tmp_path / "file" / "shapes.npz", train=8, test=8)


@given(st.sampled_from(list(SHAPES)), st.integers(0, 2**32))
def test_the_shape_stands_out_from_the_edge_of_the_picture(name, seed):
    """Whatever the colours, some pixels differ from the frame by far more than noise does."""
    pixels = draw_shape(name, np.random.default_rng(seed)).astype(float)
    frame = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    distance = np.linalg.norm(pixels - np.median(frame, axis=0), axis=-1)
    assert (distance > 50).sum() > 30  # the smallest shape covers more


def test_colour_tells_nothing():
    """The mean colour of a class is that of all, so a model must look at the outline."""
    generator = np.random.default_rng(0)
    means = [np.mean([draw_shape(name, generator).mean(axis=(0, 1)) for _ in range(100)], axis=0) for name in SHAPES]
    assert np.ptp(means, axis=0).max() < 40  # of pictures whose own means lie up to 200 apart


def test_torch_is_not_needed():
    code = "import sys; import vitrail.data.drawn; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
