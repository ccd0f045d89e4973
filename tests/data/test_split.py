"""Splitting: by class, by seed, groups whole, given splits untouched; and the split file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.data.split import read_split, split_examples, write_split
from vitrail.errors import ConfigError, FileError, ImageError


def make(
    labels: list[int], *, groups: list[str] | None = None, names: list[str] | None = None, root: str = "data"
) -> Examples:
    names = names or [f"{i}.jpg" for i in range(len(labels))]
    return Examples(
        "data",
        FilePictures([Path(root) / name for name in names]),
        np.array(labels, np.int64),
        tuple(f"class {c}" for c in range(max(labels, default=0) + 1)),
        {"train": np.arange(len(labels))},
        groups=tuple(groups) if groups else None,
    )


def make_multi(rows: list[set[int]], classes: int) -> Examples:
    targets = np.array([[int(c in row) for c in range(classes)] for row in rows], np.int64).reshape(len(rows), classes)
    pictures = ArrayPictures(np.zeros((len(rows), 1, 1, 1), np.uint8))
    return Examples("data", pictures, targets, tuple("abcdefgh"[:classes]), {"train": np.arange(len(rows))})


def names_in(examples: Examples, split: str) -> set[str]:
    return {Path(examples.pictures.name(i)).name for i in examples.splits.get(split, ())}


def check_partition(before: Examples, after: Examples) -> None:
    parts = [after.splits[split] for split in after.splits]
    together = np.concatenate(parts)
    assert sorted(together.tolist()) == sorted(before.splits["train"].tolist())


LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=80)
PARTS = st.floats(0.01, 0.45)


@settings(max_examples=200)
@given(LABELS, PARTS, PARTS, st.integers(0, 5))
def test_every_class_gives_its_part(labels: list[int], val: float, test: float, seed: int) -> None:
    before = make(labels)
    after = split_examples(before, val=val, test=test, seed=seed)
    check_partition(before, after)
    for label in set(labels):
        size = labels.count(label)
        got = {split: int((after.targets[indices] == label).sum()) for split, indices in after.splits.items()}
        assert got["train"] >= 1
        assert got["test"] >= min(1, size - 1)
        assert got["val"] >= min(1, max(0, size - 2))
        assert got["val"] <= max(1, val * size + 0.5)


@settings(max_examples=100)
@given(LABELS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_who_is_taken_depends_on_names_and_seed_only(labels: list[int], seed: int, random) -> None:
    names = [f"{i}.jpg" for i in range(len(labels))]
    here = split_examples(make(labels, names=names), seed=seed)
    order = list(range(len(labels)))
    random.shuffle(order)
    moved = make([labels[i] for i in order], names=[names[i] for i in order], root="/elsewhere/copy")
    there = split_examples(moved, seed=seed)
    for split in ("train", "val"):
        assert names_in(here, split) == names_in(there, split)


def test_another_seed_takes_others() -> None:
    taken = {frozenset(names_in(split_examples(make([0, 1] * 100), seed=seed), "val")) for seed in range(5)}
    assert len(taken) == 5


def test_the_default_is_a_tenth_by_class() -> None:
    after = split_examples(make([0] * 1000 + [1] * 100 + [2] * 10 + [3]))
    assert np.bincount(after.targets[after.splits["val"]], minlength=4).tolist() == [100, 10, 1, 0]
    assert after.notes == ("val: 111 of 1,111 training pictures, by class, seed 0",)
    assert list(after.splits) == ["train", "val"]


def test_given_splits_never_change() -> None:
    before = make([0, 1] * 20).replace(splits={"train": np.arange(30), "val": np.arange(30, 40)})
    assert split_examples(before, val=0.5) is before
    after = split_examples(before, val=0.5, test=0.2)
    assert after.splits["val"] is before.splits["val"]
    assert sorted(np.concatenate([after.splits["train"], after.splits["test"]]).tolist()) == list(range(30))
    nothing_to_take_from = make([0, 1]).replace(splits={"test": np.arange(2)})
    assert split_examples(nothing_to_take_from) is nothing_to_take_from


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=80), PARTS, st.integers(0, 3))
def test_groups_are_never_torn_apart(rows: list[tuple[int, int]], val: float, seed: int) -> None:
    before = make([label for label, _ in rows], groups=[f"g{group}" for _, group in rows])
    after = split_examples(before, val=val, seed=seed)
    check_partition(before, after)
    assert before.groups
    in_train, in_val = ({before.groups[i] for i in after.splits[split]} for split in ("train", "val"))
    assert not in_train & in_val
    assert set(before.targets.tolist()) == set(before.targets[after.splits["train"]].tolist())


def test_groups_are_balanced() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(200), rng.integers(1, 12, 200))
    labels = (groups % 4).tolist()
    after = split_examples(make(labels, groups=[f"g{g}" for g in groups]), val=0.2, seed=1)
    have = np.bincount(after.targets[after.splits["val"]], minlength=4)
    np.testing.assert_allclose(have, 0.2 * np.bincount(labels), rtol=0.1)


@settings(max_examples=200)
@given(st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=60), PARTS, st.integers(0, 3))
def test_several_labels_a_picture(rows: list[set[int]], val: float, seed: int) -> None:
    before = make_multi(rows, 5)
    after = split_examples(before, val=val, seed=seed)
    check_partition(before, after)
    left = before.targets[after.splits["train"]].sum(0)
    assert ((left > 0) == (before.targets.sum(0) > 0)).all()


def test_several_labels_a_picture_are_balanced() -> None:
    rng = np.random.default_rng(0)
    rows = [{c for c, often in enumerate((0.5, 0.3, 0.1, 0.02)) if rng.random() < often} for _ in range(2000)]
    before = make_multi(rows, 4)
    after = split_examples(before, val=0.1)
    have, whole = before.targets[after.splits["val"]].sum(0), before.targets.sum(0)
    np.testing.assert_allclose(have, whole * 0.1, atol=3)


@pytest.mark.parametrize("parts", [{"val": 1.0}, {"val": -0.1}, {"val": 0.5, "test": 0.5}, {"test": 2.0}])
def test_impossible_parts(parts: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        split_examples(make([0, 1]), **parts)


# The file


@settings(max_examples=50)
@given(
    st.lists(st.text("ab\n\r\"',;é/ \udcff", min_size=1, max_size=8), min_size=1, max_size=20, unique=True),
    st.integers(0, 3),
)
def test_a_split_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, names: list[str], seed: int) -> None:
    paths = sorted({str(Path(name)) for name in names})
    examples = make([i % 3 for i in range(len(paths))], names=paths)
    after = split_examples(examples, val=0.3, seed=seed)
    file = tmp_path_factory.mktemp("split") / "split.csv"
    write_split(file, after)
    back = read_split(file, examples)
    assert {k: v.tolist() for k, v in back.splits.items()} == {k: v.tolist() for k, v in after.splits.items() if len(v)}


def test_the_file_is_plain_and_moves_with_the_data(tmp_path: Path) -> None:
    examples = make([0, 1, 0], names=["x/1.jpg", "x/2.jpg", "y/3.jpg"], groups=["p", "q", "r"])
    left_out = examples.without({1: ImageError("damaged")})
    write_split(tmp_path / "split.csv", left_out)
    rows = list(csv.reader((tmp_path / "split.csv").read_text().splitlines()))
    assert rows == [
        ["path", "label", "split", "group"],
        ["x/1.jpg", "class 0", "train", "p"],
        ["x/2.jpg", "class 1", "", "q"],
        ["y/3.jpg", "class 0", "train", "r"],
    ]
    moved = make([0, 1, 0], names=["x/1.jpg", "x/2.jpg", "y/3.jpg"], groups=["p", "q", "r"], root="/far/away")
    assert read_split(tmp_path / "split.csv", moved).splits["train"].tolist() == [0, 2]


def test_several_labels_come_back(tmp_path: Path) -> None:
    examples = split_examples(make_multi([{0, 1}, {1}, set(), {2}, {0, 1}], 3), val=0.4)
    write_split(tmp_path / "split.csv", examples)
    assert read_split(tmp_path / "split.csv", examples).fingerprint() == examples.fingerprint()


def test_a_file_of_other_pictures_or_labels_is_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "split.csv", make([0, 1, 1]))
    with pytest.raises(FileError, match=r"names other pictures \(not in the data: '2.jpg'\)"):
        read_split(tmp_path / "split.csv", make([0, 1]))
    with pytest.raises(FileError, match=r"not in the file: '3.jpg'"):
        read_split(tmp_path / "split.csv", make([0, 1, 1, 0]))
    with pytest.raises(FileError, match=r"has other labels for 1 picture: '2.jpg'"):
        read_split(tmp_path / "split.csv", make([0, 1, 0]))


@pytest.mark.parametrize("text", ["", "a,b\n", "path,label,split,group\nx,y\n", "path,label,split,group\nx,y,trian,\n"])
def test_what_is_no_split_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "split.csv").write_text(text)
    with pytest.raises(FileError):
        read_split(tmp_path / "split.csv", make([0, 1]))
    with pytest.raises(FileError, match="cannot be read as a split file"):
        read_split(tmp_path / "none.csv", make([0, 1]))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "split.csv"
    write_split(file, make([0, 1]))
    before = file.read_bytes()
    broken = make([0, 1]).replace(classes=())
    with pytest.raises(IndexError):
        write_split(file, broken)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(FileError, match="cannot be written"):
        write_split(file / "below", make([0, 1]))
