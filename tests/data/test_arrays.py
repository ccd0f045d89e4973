"""Arrays of pictures: idx and npz, depths, layouts, lies about size."""

from __future__ import annotations

import contextlib
import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.small_sets import idx
from vitrail.data.arrays import as_pixels, open_idx, open_npz, read_idx, read_npz
from vitrail.data.sources import open_data
from vitrail.errors import FileError, VitrailError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 5), np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2], np.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_idx_files(packed: bool, tmp_path: Path) -> None:
    for split in ("train", "t10k"):
        for name, array in (("images-idx3", PIXELS), ("labels-idx1", LABELS)):
            data = idx(array)
            path = tmp_path / f"{split}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    found = open_data(tmp_path)
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 6, "test": 6}
    np.testing.assert_array_equal(found.pictures.read(7)[..., 0], PIXELS[1])
    assert found.targets.tolist() == [*LABELS, *LABELS]
    one = open_idx(next(tmp_path.glob("t10k-images*")))
    assert list(one.splits) == ["test"]
    assert len(one) == 6


def test_class_names_beside_idx_files(tmp_path: Path) -> None:
    (tmp_path / "images-idx3-ubyte").write_bytes(idx(PIXELS))
    (tmp_path / "labels-idx1-ubyte").write_bytes(idx(LABELS))
    (tmp_path / "classes.txt").write_text("shirt\nshoe\nbag\n")
    assert open_idx(tmp_path).classes == ("shirt", "shoe", "bag")


NAMES = {
    "keras": ("x_train", "y_train", "x_test", "y_test"),
    "medmnist": ("train_images", "train_labels", "test_images", "test_labels"),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_npz_with_splits(names: tuple[str, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **dict(zip(names, (PIXELS, LABELS, PIXELS[:3], LABELS[:3, None]), strict=True)))
    found = open_npz(tmp_path / "a.npz")
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 6, "test": 3}
    assert found.classes == ("0", "1", "2")


def test_npz_with_class_names(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", images=PIXELS, labels=LABELS, classes=np.array(["x", "y", "z", "none"]))
    found = open_npz(tmp_path / "a.npz")
    assert found.classes == ("x", "y", "z", "none")
    assert found.targets.tolist() == LABELS.tolist()


def test_npz_with_names_as_labels_and_with_several_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PIXELS[:2], labels=np.array(["dog", "cat"]))
    assert open_npz(tmp_path / "a.npz").targets.tolist() == [1, 0]
    np.savez(tmp_path / "b.npz", images=PIXELS[:2], labels=np.array([[1, 0, 1], [0, 0, 0]]))
    found = open_npz(tmp_path / "b.npz")
    assert found.multi_label
    assert found.targets.tolist() == [[1, 0, 1], [0, 0, 0]]


def test_a_class_only_in_test_is_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=PIXELS, y_train=LABELS % 2, x_test=PIXELS, y_test=LABELS)
    with pytest.raises(FileError, match="test has labels that are not among the 2 train has: '2'"):
        open_npz(tmp_path / "a.npz")


def test_without_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PIXELS)
    found = open_data(tmp_path / "a.npz", labelled=False, val=0.0)
    assert found.classes == ()
    assert set(found.targets.tolist()) == {-1}


def test_depths_and_layouts() -> None:
    np.testing.assert_array_equal(as_pixels(PIXELS.astype(np.uint16) * 257, "x")[..., 0], PIXELS)
    np.testing.assert_array_equal(as_pixels(PIXELS.astype(np.float32) / 255, "x")[..., 0], PIXELS)
    colour = np.random.default_rng(1).integers(0, 256, (2, 7, 8, 3), np.uint8)
    np.testing.assert_array_equal(as_pixels(colour, "x"), colour)
    np.testing.assert_array_equal(as_pixels(np.moveaxis(colour, -1, 1), "x"), colour)
    assert as_pixels(np.zeros((2, 7, 8, 5), np.uint8), "x").shape == (2, 7, 8, 5)
    for odd in (
        np.zeros((2, 3)),
        np.zeros((0, 3, 3), np.uint8),
        np.zeros((1, 2, 2), np.int32),
        np.full((1, 2, 2), np.nan),
    ):
        with pytest.raises(FileError):
            as_pixels(odd, "x")


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "float32", "float64"])
def test_idx_types(kind: str, tmp_path: Path) -> None:
    array = np.arange(12).reshape(3, 4).astype(kind)
    (tmp_path / "a").write_bytes(idx(array))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)


def test_npz_of_columns_first_and_headers_that_lie(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.asfortranarray(PIXELS))
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz")["images"], PIXELS)
    with zipfile.ZipFile(tmp_path / "lie.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (90000, 1000, 1000), }"
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(100))
    with pytest.raises(FileError, match="does not have the size it claims"):
        read_npz(tmp_path / "lie.npz")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_only_our_errors(data: st.DataObject, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS)
    good = {"a.npz": (tmp_path / "a.npz").read_bytes(), "x-images-idx3-ubyte": idx(PIXELS)}
    (tmp_path / "x-labels-idx1-ubyte").write_bytes(idx(LABELS))
    name = data.draw(st.sampled_from(sorted(good)))
    damaged = bytearray(good[name])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    (tmp_path / name).write_bytes(
        damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged
    )
    with contextlib.suppress(VitrailError):
        open_data(tmp_path / name)
