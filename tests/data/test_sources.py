"""The door: what kind of source a name is, splits by default, classes of a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data.small_sets import class_folders, picture_bytes, table, tar
from vitrail.data.sources import open_data
from vitrail.data.split import write_split
from vitrail.errors import FileError


def sizes(examples: object) -> dict[str, int]:
    return {split: len(indices) for split, indices in examples.splits.items()}  # type: ignore[attr-defined]


def test_a_tenth_is_taken_only_where_no_split_is_named(tmp_path: Path) -> None:
    flat = class_folders(tmp_path / "flat", {"a": 20, "b": 20})
    assert sizes(open_data(flat)) == {"train": 36, "val": 4}
    assert sizes(open_data(flat, val=0.0)) == {"train": 40}
    assert sizes(open_data(flat, val=0.25, test=0.1)) == {"train": 26, "val": 10, "test": 4}
    split = class_folders(tmp_path / "split", {"train/a": 10, "train/b": 10, "test/a": 2, "test/b": 2})
    assert sizes(open_data(split)) == {"train": 20, "test": 4}
    assert sizes(open_data(split, val=0.1)) == {"train": 18, "val": 2, "test": 4}


def test_a_split_file_restores_the_split(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data", {"a": 20, "b": 20})
    first = open_data(root, seed=3)
    write_split(tmp_path / "split.csv", first)
    again = open_data(str(root), split_file=tmp_path / "split.csv")
    assert again.fingerprint() == first.fingerprint()


def test_the_classes_of_a_model(tmp_path: Path) -> None:
    root = class_folders(tmp_path, {"cat": 2, "dog": 1})
    found = open_data(root, classes=("dog", "cow", "cat"), val=0.0)
    assert found.classes == ("dog", "cow", "cat")
    assert found.targets.tolist() == [2, 2, 0]
    assert "no pictures of 'cow'" in found.notes
    with pytest.raises(FileError, match=r"labels that the model does not know: 'cat'; did you mean 'cats'"):
        open_data(root, classes=("dog", "cats"))


def test_one_class_is_enough_to_evaluate_a_model(tmp_path: Path) -> None:
    found = open_data(class_folders(tmp_path, {"cat": 3}), classes=("cat", "dog"), val=0.0)
    assert found.targets.tolist() == [0, 0, 0]


def test_the_classes_of_a_model_with_several_labels(tmp_path: Path) -> None:
    path = table(tmp_path, "path,label\na.png,x|y\nb.png,y\n")
    assert open_data(path, classes=("y", "z", "x"), val=0.0).targets.tolist() == [[1, 0, 1], [1, 0, 0]]


def test_every_kind_of_source_by_its_name(tmp_path: Path) -> None:
    class_folders(tmp_path / "folder", {"0": 1, "1": 1})
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 3), np.uint8), labels=[0, 1])
    members = {
        f"{i}.{end}": data for i in range(2) for end, data in (("png", picture_bytes(i)), ("cls", str(i).encode()))
    }
    tar(tmp_path / "shards" / "b.tar", members)
    (tmp_path / "t.tsv").write_text("path\tlabel\nfolder/0/0.png\t0\nfolder/1/1.png\t1\n")
    for source in ("folder", "a.npz", "shards", "shards/b.tar", "shards/{b}.tar".replace("{b}", "b"), "t.tsv"):
        found = open_data(tmp_path / source)
        assert found.classes == ("0", "1"), source
        assert found.targets.tolist() == [0, 1], source


def test_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "x.docx").write_bytes(b"")
    with pytest.raises(FileError, match=r"data of an unknown kind \(.docx\); give a folder, .csv"):
        open_data(tmp_path / "x.docx")
    with pytest.raises(FileError, match="no data set of that name; did you mean 'cifar10'"):
        open_data("cifar100")
    for name in ("a\0b", "a" * 5000, "a" * 5000 + ".tar"):
        with pytest.raises(FileError, match="no such"):
            open_data(name)


def test_a_folder_around_the_data_is_pointed_out(tmp_path: Path) -> None:
    class_folders(tmp_path, {"photos/cat": 1, "photos/dog": 1})
    with pytest.raises(FileError, match=f"if the classes are inside it, give {tmp_path}/photos"):
        open_data(tmp_path)


def test_nothing_here_imports_torch() -> None:
    code = "import sys, vitrail.data.sources, vitrail.data.measure; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
