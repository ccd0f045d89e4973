"""Tar shards: labels of each kind, splits, and reading from any process."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.small_sets import class_folders, picture_bytes, tar
from vitrail.data.shards import expand, open_shards
from vitrail.data.sources import open_data
from vitrail.errors import FileError, ImageError, VitrailError


def members(labels: list[object], first: int = 0) -> dict[str, bytes]:
    found = {}
    for number, label in enumerate(labels, first):
        found[f"{number:04}.png"] = picture_bytes(number)
        found[f"{number:04}.cls"] = str(label).encode()
    return found


def test_numbers_are_classes_in_order(tmp_path: Path) -> None:
    found = open_shards(tar(tmp_path / "a.tar", members([10, 2, 0])))
    assert found.classes == ("0", "2", "10")
    assert found.targets.tolist() == [2, 1, 0]
    assert found.pictures.name(1) == f"{tmp_path}/a.tar/0001.png"
    assert [found.pictures.read(i)[0, 0, 0] for i in range(3)] == [0, 1, 2]


def test_classes_txt_names_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("zebra\napple\nunseen\n\n")
    found = open_shards(tar(tmp_path / "a.tar", members([1, 0, "apple"])))
    assert found.classes == ("zebra", "apple", "unseen")
    assert found.targets.tolist() == [1, 0, 1]
    tar(tmp_path / "a.tar", members([1, 7]))
    with pytest.raises(FileError, match=r"labels without a class name: '7'; the list names classes 0 to 2"):
        open_shards(tmp_path / "a.tar")


def test_json_labels_and_several_of_them(tmp_path: Path) -> None:
    labels = [{"label": "cat"}, {"label": ["cat", "dog"]}, {"label": 3, "more": [1]}]
    both = {
        f"x/{i}.{end}": data
        for i, v in enumerate(labels)
        for end, data in (("jpg", picture_bytes(i)), ("json", json.dumps(v).encode()))
    }
    found = open_shards(tar(tmp_path / "a.tar", both))
    assert found.classes == ("3", "cat", "dog")
    assert found.targets.tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0]]


def test_a_folder_of_shards_with_splits_in_their_names(tmp_path: Path) -> None:
    for number in range(2):
        tar(tmp_path / f"train-{number:03}.tar", members([0, 1], 10 * number))
    tar(tmp_path / "valid-000.tar", members([1], 20))
    found = open_data(tmp_path)
    assert {split: indices.tolist() for split, indices in found.splits.items()} == {"train": [0, 1, 2, 3], "val": [4]}
    only_train = open_data(str(tmp_path / "train-{000..001}.tar"), val=0.0)
    assert len(only_train) == 4
    tar(tmp_path / "odd.tar", members([0]))
    with pytest.raises(FileError, match=r"shards of no split beside others: 'odd.tar'"):
        open_data(tmp_path)


def test_shards_in_folders_of_the_splits(tmp_path: Path) -> None:
    tar(tmp_path / "train" / "0.tar", members([0, 1]))
    tar(tmp_path / "val" / "0.tar", members([1]))
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    found = open_data(tmp_path)
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 2, "val": 1}
    assert found.classes == ("cat", "dog")


def test_a_tar_beside_class_folders_is_an_accident(tmp_path: Path) -> None:
    class_folders(tmp_path, {"train/cat": 1, "train/dog": 1})
    (tmp_path / "download.tar").write_bytes(b"whatever")
    assert len(open_data(tmp_path, val=0.0)) == 2


def test_patterns() -> None:
    assert expand("a-{008..011}.tar") == ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]
    assert expand("{0..1}/{9..10}.tar") == ["0/9.tar", "0/10.tar", "1/9.tar", "1/10.tar"]
    with pytest.raises(FileError, match="a range from 3 to 1"):
        expand("a-{3..1}.tar")


def test_links_inside_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in members([0, 1]).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo("9.png")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    found = open_shards(tmp_path / "a.tar")
    assert len(found) == 2
    assert "links and devices in the tar files, not followed: 2" in found.notes


def test_a_bad_picture_is_named_by_shard_and_member(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {**members([0, 1]), "bad.png": b"<html>", "bad.cls": b"0"})
    found = open_shards(path)
    with pytest.raises(ImageError) as caught:
        found.pictures.read(2)
    assert str(caught.value).startswith(f"{path}/bad.png: ")
    path.unlink()
    with pytest.raises(ImageError, match="the shard cannot be read"):
        found.pictures.read(0)


def _first_value(pictures: object, index: int) -> int:
    return int(pictures.read(index)[0, 0, 0])  # type: ignore[attr-defined]


def test_any_process_can_read(tmp_path: Path) -> None:
    pictures = open_shards(tar(tmp_path / "a.tar", members([0, 1] * 10))).pictures
    again = pickle.loads(pickle.dumps(pictures))
    np.testing.assert_array_equal(again.read(7), pictures.read(7))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.starmap(_first_value, [(pictures, i) for i in range(20)]) == list(range(20))


def test_without_labels(tmp_path: Path) -> None:
    found = open_shards(tar(tmp_path / "a.tar", {"a.png": picture_bytes()}), labelled=False)
    assert found.targets.tolist() == [-1]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_shards_give_only_our_errors(data: st.DataObject, tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {**members([0, 1]), "2.png": picture_bytes(2), "2.json": b'{"label": [1]}'})
    damaged = bytearray(path.read_bytes())[: data.draw(st.integers(0, 6000))]
    for place in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=4)) if damaged else ():
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with contextlib.suppress(VitrailError):
        found = open_shards(path)
        for index in range(len(found)):
            found.pictures.read(index)


def test_a_label_made_to_exhaust_the_reader(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {"1.png": picture_bytes(), "1.json": b"[" * 500_000})
    with pytest.raises(FileError, match=r"cannot be read as a shard \(1.json is not JSON\)"):
        open_shards(path)
