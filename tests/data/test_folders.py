"""Folders of pictures: layouts, splits, class order, what is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.small_sets import class_folders, write_picture
from vitrail.data.examples import NO_LABEL
from vitrail.data.folders import open_folder


def test_a_folder_a_class(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"dog": 2, "Cat": 1, "apple": 3}))
    assert found.classes == ("Cat", "apple", "dog")  # by code point, whatever the locale
    assert found.targets.tolist() == [0, 1, 1, 1, 2, 2]
    assert set(found.splits) == {"train"}
    assert found.pictures.name(0) == str(tmp_path / "Cat" / "2.png")
    assert found.pictures.read(0)[0, 0].tolist() == [2, 100, 200]


@pytest.mark.parametrize(
    ("train", "val", "test"),
    [
        ("train", "val", "test"),
        ("Training", "valid", "testing"),
        ("TRAIN", "Validation", "eval"),
        ("train", "dev", "Test"),
    ],
)
def test_splits_by_any_of_their_names(train: str, val: str, test: str, tmp_path: Path) -> None:
    found = open_folder(
        class_folders(tmp_path, {f"{train}/a": 3, f"{train}/b": 3, f"{val}/a": 2, f"{val}/b": 1, f"{test}/a": 1})
    )
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 6, "val": 3, "test": 1}
    assert any(f"{val} is val" in note for note in found.notes)


def test_class_numbers_do_not_shift_where_val_lacks_a_class(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"train/a": 1, "train/b": 1, "train/c": 1, "val/b": 0, "val/c": 1}))
    assert found.classes == ("a", "b", "c")
    assert found.targets[found.split("val")].tolist() == [2]
    assert "no pictures in 'val/b'" in found.notes


def test_folders_below_a_class_belong_to_it(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"cat/2020/may": 2, "cat": 1, "dog/x": 1}))
    assert found.classes == ("cat", "dog")
    assert found.targets.tolist() == [0, 0, 0, 1]


def test_a_class_may_be_called_test_where_nothing_is_called_train(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"cat": 1, "test": 1}))
    assert found.classes == ("cat", "test")
    assert any("taken as a class" in note for note in found.notes)


def test_only_a_test_split(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"test/a": 1, "test/b": 2}))
    assert list(found.splits) == ["test"]
    assert found.classes == ("a", "b")


def test_what_is_no_picture_is_counted_and_what_is_hidden_ignored(tmp_path: Path) -> None:
    class_folders(tmp_path, {"a": 1, "b": 1, ".git": 3, "__MACOSX": 2})
    for name in ("notes.txt", "more.TXT", "Thumbs.db", ".DS_Store", "README"):
        (tmp_path / "a" / name).write_text("x")
    write_picture(tmp_path / "a" / "LOUD.PNG")
    write_picture(tmp_path / "beside.png")
    found = open_folder(tmp_path)
    assert len(found) == 3
    assert "files that are not pictures: 2 .txt, 1 README" in found.notes
    assert "1 picture beside the class folders not used: 'beside.png'" in found.notes


def test_linked_folders_are_read_and_never_take_a_folder_from_its_place(tmp_path: Path) -> None:
    elsewhere = class_folders(tmp_path / "elsewhere", {"many": 4})
    root = class_folders(tmp_path / "root", {"b": 1, "a": 1})
    (root / "c").symlink_to(elsewhere / "many")
    (root / "a" / "all_of_b").symlink_to(root / "b")
    found = open_folder(root)
    assert found.classes == ("a", "b", "c")
    assert found.targets.tolist() == [0, 1, 2, 2, 2, 2]


def test_one_spelling_of_accents(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"train/caf\u00e9": 1, "train/tea": 1, "val/cafe\u0301": 1}))
    assert found.classes == ("café", "tea")


def test_without_labels_every_picture_counts_wherever_it_lies(tmp_path: Path) -> None:
    class_folders(tmp_path, {"cat": 1, "deep/er": 1, ".": 1})
    found = open_folder(tmp_path, labelled=False)
    assert len(found) == 3
    assert set(found.targets.tolist()) == {NO_LABEL}
    assert found.classes == ()


def test_without_labels_splits_stay(tmp_path: Path) -> None:
    found = open_folder(class_folders(tmp_path, {"train": 3, "val": 1}), labelled=False)
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 3, "val": 1}
