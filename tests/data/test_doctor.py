"""Every planted fault is found and named, a sound set raises none, and no file is touched."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from data.picture_kinds import BAD_BYTES
from data.planting import array_set, file_set, opened, save, scene, small_set
from vitrail.data.doctor import examine
from vitrail.data.doctor_checks import effective_number
from vitrail.data.doctor_copies import joined
from vitrail.data.doctor_parts import Diagnosis, Finding
from vitrail.data.examples import LeftOut


def kinds(diagnosis: Diagnosis) -> set[str]:
    return {finding.kind for finding in diagnosis.findings}


def the(diagnosis: Diagnosis, kind: str) -> Finding:
    (finding,) = (finding for finding in diagnosis.findings if finding.kind == kind)
    return finding


def names(diagnosis: Diagnosis, indices: tuple[int, ...]) -> set[str]:
    return {Path(diagnosis.examples.pictures.name(index)).name for index in indices}


def everything(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(root)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_nothing_is_found_in_a_sound_set(tmp_path: Path) -> None:
    assert examine(opened(small_set(tmp_path))).findings == ()


# One picture among others: (what is planted at a path, the finding, its severity)


def copy_of_train(root: Path) -> str:
    shutil.copy(root / "train/ant/0.png", root / "test/ant/again.png")
    return "again.png"


def copy_in_class(root: Path) -> str:
    shutil.copy(root / "train/ant/0.png", root / "train/ant/again.png")
    return "again.png"


def copy_elsewhere(root: Path) -> str:
    shutil.copy(root / "train/ant/0.png", root / "train/bee/again.png")
    return "again.png"


def saved_again(place: str) -> Callable[[Path], str]:
    def plant(root: Path) -> str:
        with Image.open(root / "train/ant/0.png") as image:
            return save(image, root / place / "again.jpg", quality=60).name

    return plant


def made(name: str, image: Image.Image, **options: object) -> Callable[[Path], str]:
    return lambda root: save(image, root / "train/ant" / name, **options).name


def written(name: str, data: bytes) -> Callable[[Path], str]:
    def plant(root: Path) -> str:
        (root / "train/ant" / name).write_bytes(data)
        return name

    return plant


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


GREY16 = Image.fromarray(np.asarray(scene(900).convert("L")).astype(np.uint16) * 257)
FAULTS = {
    "copy across splits": (copy_of_train, "copies-across-splits", "error"),
    "copy within a split": (copy_in_class, "copies-within-split", "warning"),
    "copy across classes": (copy_elsewhere, "copies-across-classes", "error"),
    "near copy across splits": (saved_again("test/ant"), "near-copies-across-splits", "error"),
    "near copy within a split": (saved_again("train/ant"), "near-copies-within-split", "note"),
    "near copy across classes": (saved_again("train/bee"), "near-copies-across-classes", "error"),
    "cut short": (written("cut.jpg", BAD_BYTES["JPEG cut at half"]()), "unreadable", "error"),
    "a web page": (written("page.jpg", b"<html><body>not found"), "unreadable", "error"),
    "blank": (made("blank.png", Image.new("RGB", (96, 96), "white")), "blank", "warning"),
    "blank JPEG": (made("blank.jpg", Image.new("RGB", (96, 96), (90, 120, 33))), "blank", "warning"),
    "very small": (made("small.png", scene(901).resize((9, 12))), "very-small", "warning"),
    "long": (made("long.png", scene(902).resize((800, 90))), "long", "note"),
    "grey": (made("grey.png", scene(903).convert("L")), "grey-among-colour", "note"),
    "grey stored as colour": (made("grey.png", scene(903).convert("L").convert("RGB")), "grey-among-colour", "note"),
    "animated": (
        made("moving.gif", scene(904), save_all=True, append_images=[scene(905)]),
        "odd-frames",
        "note",
    ),
    "CMYK": (made("cmyk.jpg", scene(906).convert("CMYK")), "odd-cmyk", "note"),
    "16-bit": (made("deep.png", GREY16), "odd-16-bit", "note"),
    "turned": (made("turned.jpg", scene(907), exif=turned()), "odd-turned", "note"),
    "transparent": (made("clear.png", scene(908).convert("RGBA").point(lambda v: v // 2)), "odd-transparent", "note"),
    "wrong suffix": (made("really.jpg", scene(909), format="PNG"), "odd-suffix", "note"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_named(fault: str, tmp_path: Path) -> None:
    plant, kind, severity = FAULTS[fault]
    name = plant(small_set(tmp_path))
    before = everything(tmp_path)
    diagnosis = examine(opened(tmp_path))
    finding = the(diagnosis, kind)
    assert finding.severity == severity
    assert name in names(diagnosis, finding.indices)
    assert finding.fix
    assert kinds(diagnosis) <= {kind, "grey-among-colour"}  # 16-bit pictures are grey
    assert everything(tmp_path) == before


def test_copies_stand_together(tmp_path: Path) -> None:
    copy_of_train(small_set(tmp_path))
    diagnosis = examine(opened(tmp_path))
    (group,) = the(diagnosis, "copies-across-splits").groups
    assert names(diagnosis, group) == {"0.png", "again.png"}


def test_left_out_pictures_are_named(tmp_path: Path) -> None:
    examples = opened(small_set(tmp_path)).replace(left_out=(LeftOut("gone.jpg", "empty"),))
    assert the(examine(examples), "unreadable").details == ("gone.jpg: empty",)


# Classes and groups


def labelled(counts: dict[str, dict[str, int]]) -> Diagnosis:
    """Examined quickly: a set with so many pictures of each class in each split."""
    classes = tuple(counts)
    labels = [(k, split) for k, by in enumerate(counts.values()) for split, n in by.items() for _ in range(n)]
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 2, 2, 3), dtype=np.uint8)
    splits = {name: [i for i, (_, split) in enumerate(labels) if split == name] for name in ("train", "test")}
    examples = array_set(pixels, [k for k, _ in labels], **splits).replace(classes=classes)
    return examine(examples, quick=True)


@pytest.mark.parametrize(
    ("counts", "kind", "word"),
    [
        ({"a": {"test": 3}, "b": {"train": 20, "test": 3}}, "empty-class", "'a'"),
        ({"a": {"train": 20}, "b": {"train": 20, "test": 3}}, "class-not-judged", "'a'"),
        ({"a": {"train": 9, "test": 3}, "b": {"train": 20, "test": 3}}, "small-class", "'a'"),
        ({"a": {"train": 10, "test": 3}, "b": {"train": 200, "test": 3}}, "uneven-classes", "20 : 1"),
        ({"Cat": {"train": 20, "test": 3}, "cat": {"train": 20, "test": 3}}, "alike-class-names", "'Cat' / 'cat'"),
        ({"a b": {"train": 20, "test": 3}, "a_b ": {"train": 20, "test": 3}}, "alike-class-names", "'a b' / 'a_b '"),
        ({"dog": {"train": 20, "test": 3}, "dogs": {"train": 20, "test": 3}}, "alike-class-names", "'dog' / 'dogs'"),
        ({"berry": {"train": 20, "test": 3}, "berries": {"train": 20, "test": 3}}, "alike-class-names", "berries"),
    ],
)
def test_faults_of_classes(counts: dict[str, dict[str, int]], kind: str, word: str) -> None:
    diagnosis = labelled(counts)
    assert word in the(diagnosis, kind).what
    assert kinds(diagnosis) == {kind}


def test_sound_classes() -> None:
    sound = {
        name: {"train": 20, "test": 3} for name in ("grass", "glass", "gas", "bus", "1", "11", "C", "C++", "猫", "犬")
    }
    assert labelled(sound).findings == ()


def test_groups_across_splits() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 2, 2, 3), dtype=np.uint8)
    examples = array_set(pixels, [0, 1] * 20, train=range(30), test=range(30, 40))
    sound = examples.replace(groups=tuple(f"patient {i // 5}" for i in range(40)))
    torn = examples.replace(groups=tuple(f"patient {i // 4}" for i in range(40)))
    assert examine(sound, quick=True).findings == ()
    assert "'patient 7'" in the(examine(torn, quick=True), "group-across-splits").what


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("clip{group}_{index:03}.png", "series-across-splits"),
        ("IMG_{index:04}.png", None),
        ("{index}.png", None),
    ],
)
def test_series_told_by_names(pattern: str, kind: str | None, tmp_path: Path) -> None:
    paths = [save(scene(i, 16), tmp_path / pattern.format(group=i // 8, index=i)) for i in range(40)]
    split = {"train": np.arange(20), "test": np.arange(20, 40)}
    diagnosis = examine(file_set(paths, splits=split), quick=True)
    assert kinds(diagnosis) == ({kind} if kind else set())


@pytest.mark.parametrize(("shared", "kind"), [(1, "name-across-splits"), (10, None)])
def test_the_same_name_in_two_splits(shared: int, kind: str | None, tmp_path: Path) -> None:
    """One name in both tells something; where most are, they only count pictures."""
    names = [*(f"a/5d41402abc{n}" for n in range(10)), *(f"b/5d41402abc{n + 10 - shared}" for n in range(10))]
    paths = [save(scene(seed, 16), tmp_path / f"{name}.png") for seed, name in enumerate(names)]
    split = {"train": np.arange(10), "test": np.arange(10, 20)}
    assert kinds(examine(file_set(paths, splits=split), quick=True)) == ({kind} if kind else set())


# As a whole


def test_quick_opens_nothing_and_finds_copies(tmp_path: Path) -> None:
    copy_of_train(small_set(tmp_path))
    (tmp_path / "train/ant/broken.png").write_bytes(b"broken")
    assert kinds(examine(opened(tmp_path), quick=True)) == {"copies-across-splits"}


def test_arrays_are_examined_too() -> None:
    pixels = np.stack([np.asarray(scene(seed, 28).convert("L")) for seed in range(60)])[..., None]
    pixels[50] = pixels[3]
    diagnosis = examine(array_set(pixels, [0, 1] * 30, train=range(40), test=range(40, 60)))
    assert {"copies-across-splits", "copies-across-classes"} == kinds(diagnosis)
    assert the(diagnosis, "copies-across-splits").groups == ((3, 50),)


def test_pictures_outside_all_splits_do_not_count(tmp_path: Path) -> None:
    copy_of_train(small_set(tmp_path))
    examples = opened(tmp_path)
    kept = {
        name: np.array([i for i in at if "again" not in examples.pictures.name(int(i))])
        for name, at in examples.splits.items()
    }
    assert examine(examples.replace(splits=kept)).findings == ()


def test_progress_and_threads_change_nothing(tmp_path: Path) -> None:
    copy_of_train(small_set(tmp_path, train=40))
    seen: list[tuple[int, int]] = []
    one = examine(opened(tmp_path), threads=1, progress=lambda done, of: seen.append((done, of)))
    many = examine(opened(tmp_path), threads=5)
    assert one.findings == many.findings
    assert seen[-1] == (89, 89)
    assert seen == sorted(seen)


def test_everything_goes_into_json(tmp_path: Path) -> None:
    copy_of_train(small_set(tmp_path))
    found = examine(opened(tmp_path)).to_dict()
    assert found["counts"] == {"error": 1, "warning": 0, "note": 0}
    assert found["classes"]["ant"] == {"train": 12, "test": 5}
    assert [Path(name).name for name in found["findings"][0]["groups"][0]] == ["again.png", "0.png"]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_effective_number_lies_between_one_and_all(counts: list[int]) -> None:
    assert 1 - 1e-9 <= effective_number(counts) <= len(counts) + 1e-9
    assert effective_number([7] * len(counts)) == pytest.approx(len(counts))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_joined_pairs_are_in_one_set_each(pairs: list[tuple[int, int]]) -> None:
    groups = joined(pairs)
    home = {index: number for number, group in enumerate(groups) for index in group}
    assert sum(map(len, groups)) == len(home) == len({index for pair in pairs for index in pair})
    assert all(home[a] == home[b] for a, b in pairs)
