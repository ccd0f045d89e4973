"""Every fault a data set can have is one line that names the place and the remedy (family D2)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.small_sets import class_folders, idx, picture_bytes, table, tar, write_picture
from vitrail.data.sources import open_data
from vitrail.errors import FileError

Fault = Callable[[Path], Path]


def folders(**counts: int) -> Fault:
    return lambda root: class_folders(root, {name.replace("__", "/"): count for name, count in counts.items()})


def csv(text: str | bytes) -> Fault:
    return lambda root: table(root, text)


def shard(**members: bytes) -> Fault:
    return lambda root: tar(root / "a.tar", {name.replace("__", "."): content for name, content in members.items()})


def npz(**arrays: np.ndarray) -> Fault:
    def write(root: Path) -> Path:
        np.savez(root / "a.npz", **arrays)
        return root / "a.npz"

    return write


def flat(root: Path) -> Path:
    write_picture(root / "1.png")
    return root


def other_files(root: Path) -> Path:
    (root / "cat").mkdir()
    (root / "cat" / "1.heic").write_bytes(b"x")
    return root


def two_names_of_a_split(root: Path) -> Path:
    return class_folders(root, {"train/a": 1, "train/b": 1, "val/a": 1, "valid/b": 1})


def short_idx(root: Path) -> Path:
    (root / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((5, 4, 4), np.uint8))[:-1])
    (root / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(5, np.uint8)))
    return root


def lying_idx(root: Path) -> Path:
    header = b"\0\0\x08\x03" + b"\x7f\xff\xff\xff" * 3
    (root / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header))
    (root / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(5, np.uint8)))
    return root


def only_labels(root: Path) -> Path:
    (root / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(5, np.uint8)))
    return root


def packed_tar(root: Path) -> Path:
    (root / "a.tar").write_bytes(gzip.compress(tar(root / "b", {"1.png": picture_bytes(), "1.cls": b"0"}).read_bytes()))
    return root / "a.tar"


def cut_tar(root: Path) -> Path:
    path = tar(root / "a.tar", {"1.cls": b"0", "1.png": bytes(9000)})
    path.write_bytes(path.read_bytes()[:5000])
    return path


def missing_pictures(root: Path) -> Path:
    return table(root, "path,label\n" + "".join(f"gone{i}.png,cat\n" for i in range(9)))


PIXELS = np.zeros((4, 5, 5), np.uint8)
LABELS = np.array([0, 1, 0, 1])

FAULTS: dict[str, tuple[Fault, str]] = {
    # folders
    "empty class": (folders(cat=2, dog=0), "dog: a class without pictures; put pictures into the folder, or remove it"),
    "empty class in train": (folders(train__cat=1, train__dog=0, train__cow=1, val__cat=1), "dog: a class without"),
    "one class": (folders(cat=3), "only one class, 'cat'"),
    "class only in val": (folders(train__cat=1, train__dog=1, val__cow=1, val__cat=1), "val has labels that are not"),
    "class only in test": (folders(train__cat=1, train__dog=1, test__dgo=1), "'dgo'; rename them, add training"),
    "no pictures": (lambda root: root, "no pictures here (looked for .bmp"),
    "only other files": (other_files, "it holds 1 .heic files"),
    "no class folders": (flat, "1 picture, but no class folders"),
    "two folders for one split": (two_names_of_a_split, "several folders for val: 'val', 'valid'; keep one of them"),
    "not there": (lambda root: root / "nothing", "nothing: no such folder or file; check the path"),
    "one picture": (lambda root: write_picture(root / "1.png"), "one picture is not a data set"),
    # tables
    "CSV empty": (csv(""), "the file is empty; start with the line path,label"),
    "CSV header only": (csv("path,label\n"), "a header but no rows"),
    "CSV without a label column": (csv("path,colour\na.png,red\n"), "no column 'label'; name one of its columns"),
    "CSV without a path column": (csv("id,label\n1,cat\n"), "no column 'path'"),
    "CSV with two label columns": (csv("path,class,category\na.png,x,y\n"), "several columns for label"),
    "CSV empty label": (csv("path,label\na.png,cat\nb.png,\n"), "row 3: an empty label; write the label"),
    "CSV empty path": (csv("path,label\na.png,cat\n,dog\n"), "row 3: no path"),
    "CSV unknown split": (
        csv("path,label,split\na.png,cat,trian\n"),
        "row 2: unknown split 'trian'; did you mean 'train'",
    ),
    "CSV split half given": (csv("path,label,split\na.png,cat,train\nb.png,dog,\n"), "row 3: no split here"),
    "CSV missing files": (missing_pictures, "9 of 9 pictures not found: row 2 "),
    "CSV two labels for a path": (
        csv("path,label\na.png,cat\nb.png,dog\n./a.png,dog\n"),
        "row 4: 'a.png' again, but with another label than in row 2",
    ),
    "CSV two splits for a path": (
        csv("path,label,split\na.png,cat,train\nb.png,dog,train\na.png,cat,val\n"),
        "row 4: 'a.png' again, but with another split than in row 2",
    ),
    "CSV ragged row": (csv("path,label\na.png,cat\nb.png,dog,cow\n"), "row 3: 3 cells where the header has 2"),
    "CSV open quote": (csv('path,label\na.png,"cat\nb.png,dog\n'), "check the quotes"),
    "CSV quote that swallows a line": (
        csv('path,label\na.png,"cat\nb.png,dog"\n'),
        r"a line break in the label 'cat\n",
    ),
    "CSV zero byte": (csv(b"path,label\na.png,c\0at\n"), "row 2: a zero byte"),
    "CSV not UTF-8": (csv(b"path,label\na.png,cat\nb.png,caf\xe9\n"), "row 3: not UTF-8 text"),
    "CSV UTF-16": (csv("path,label\na.png,cat\n".encode("utf-16")), "this is UTF-16; save it as 'CSV UTF-8'"),
    "CSV class only in val": (
        csv("path,label,split\na.png,cat,train\nb.png,dog,train\nc.png,cow,val\n"),
        "val has labels that are not among the 2 train has: 'cow'",
    ),
    "CSV group across splits": (
        csv("path,label,split,group\na.png,cat,train,p1\nb.png,dog,train,p2\nc.png,cat,val,p1\n"),
        "group 'p1' is in train and in val",
    ),
    "CSV one class": (csv("path,label\na.png,cat\nb.png,cat\n"), "only one class, 'cat'"),
    # shards
    "tar without labels": (shard(a__png=picture_bytes()), "1 picture without a label: 'a.png'; add a .cls"),
    "tar packed": (packed_tar, "unpack it first (gunzip)"),
    "tar cut short": (cut_tar, "cannot be read as a shard (unexpected end of data)"),
    "tar with two pictures a key": (
        shard(a__png=picture_bytes(), a__jpg=picture_bytes(), a__cls=b"0"),
        "two pictures named 'a'",
    ),
    "tar with a broken JSON": (
        shard(a__png=picture_bytes(), a__json=b"{"),
        "cannot be read as a shard (a.json is not JSON)",
    ),
    "tar without pictures": (shard(a__cls=b"0"), "no pictures in the tar files"),
    "tar pattern with a gap": (lambda root: root / "a-{0..2}.tar", "no such shard"),
    # arrays
    "npz with two arrays of pictures": (
        npz(x=PIXELS, images=PIXELS, y=LABELS),
        "several arrays of images for one split",
    ),
    "npz without labels": (npz(images=PIXELS), "no labels (it holds 'images')"),
    "npz with unknown names": (npz(foo=PIXELS), "no pictures (it holds 'foo')"),
    "npz with too few labels": (npz(images=PIXELS, labels=LABELS[:3]), "4 pictures but 3 labels"),
    "npz of objects": (npz(images=np.array([None] * 4), labels=LABELS), "holds Python objects, which could run code"),
    "npz of wild numbers": (npz(images=PIXELS - 3.5, labels=LABELS), "values from -3.5 to -3.5; scale them"),
    "npz of labels in fractions": (npz(images=PIXELS, labels=LABELS / 2), "labels of type float64"),
    "idx cut short": (short_idx, "its header claims 5 x 4 x 4, which is not what follows"),
    "idx without pictures": (only_labels, "labels but no pictures"),
    "idx that lies": (lying_idx, "its header claims 2147483647 x"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_one_line_with_the_remedy(fault: str, tmp_path: Path) -> None:
    make, said = FAULTS[fault]
    source = make(tmp_path)
    with pytest.raises(FileError) as caught:
        open_data(source)
    line = str(caught.value)
    assert said in line
    assert str(tmp_path) in line
    assert caught.value.fix
    assert line.isprintable()


def test_the_promised_number_of_faults(record_property: Callable[[str, object], None]) -> None:
    assert len(FAULTS) >= 22
    record_property("figure", f"{len(FAULTS)} faults of data sets named with their remedy")


# Oddities that are no faults


def test_link_loops_end_and_are_noted(tmp_path: Path) -> None:
    class_folders(tmp_path, {"cat": 2, "dog": 2})
    (tmp_path / "cat" / "up").symlink_to(tmp_path)
    (tmp_path / "dog" / "self").symlink_to("self")
    found = open_data(tmp_path)
    assert len(found) == 4
    assert any("not followed again: 'cat/up'" in note for note in found.notes)


def test_names_with_line_breaks_and_letters_of_all_kinds(tmp_path: Path) -> None:
    odd = "größe\n日本 é"
    write_picture(tmp_path / odd / "a\nb.png", 1)
    write_picture(tmp_path / "cat" / b"\xff\xfe.png".decode(errors="surrogateescape"), 2)
    found = open_data(tmp_path)
    assert found.classes == ("cat", odd)
    assert [found.pictures.read(i)[0, 0, 0] for i in range(2)] == [2, 1]
    assert all(note.isprintable() for note in found.notes)
    assert len(found.fingerprint()) == 64


def test_a_line_break_in_a_quoted_path_is_a_name_like_any_other(tmp_path: Path) -> None:
    write_picture(tmp_path / "a\nb.png", 7)
    write_picture(tmp_path / "c.png", 8)
    path = table(tmp_path, 'path,label\n"a\nb.png",cat\nc.png,dog\n', pictures=())
    assert open_data(path).pictures.read(0)[0, 0, 0] == 7


def test_rows_listed_twice_are_used_once_and_noted(tmp_path: Path) -> None:
    found = open_data(table(tmp_path, "path,label\na.png,cat\nb.png,dog\na.png,cat\n"))
    assert len(found) == 2
    assert "1 row listed twice, used once" in found.notes
