"""Which pictures words mean, found one by one."""

from __future__ import annotations

import io
import itertools
import os

import pytest

from vitrail.predict.find import find_pictures, read_paths

ELSEWHERE = "look for another place, or name the files themselves"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1.jpg", "a/b/2.PNG", "a/b/notes.txt", "a/.hidden/3.jpg", "a/._4.jpg", "c/x y[1].webp", "c/é\n.bmp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


def found(*words, **options):
    said = []
    paths = sorted(find_pictures(words, lambda error: said.append(str(error)), **options))
    return paths, said


def test_folders_are_walked_hidden_names_and_other_files_are_not_pictures(tree):
    assert found("a") == (["a/1.jpg", "a/b/2.PNG"], [])
    assert found(str(tree / "c"))[0] == [f"{tree}/c/x y[1].webp", f"{tree}/c/é\n.bmp"]


@pytest.mark.usefixtures("tree")
def test_files_are_taken_as_they_are():
    names = ["a/b/notes.txt", "c/x y[1].webp", "gone.jpg"]
    assert found(*names) == (sorted(names), [])


@pytest.mark.usefixtures("tree")
def test_patterns():
    assert found("a/**/*.[jP]*") == (["a/1.jpg", "a/b/2.PNG"], [])
    assert found("?")[0] == ["a/1.jpg", "a/b/2.PNG", "c/x y[1].webp", "c/é\n.bmp"]
    assert found("*.tif") == (
        [],
        [f"*.tif: no file matches this pattern; {ELSEWHERE}"],
    )
    assert found("*.tif", patterns=False) == (["*.tif"], [])


@pytest.mark.usefixtures("tree")
def test_what_leads_nowhere_is_said():
    paths, said = found("empty", "a")
    assert len(paths) == 2
    assert said == [f"empty: no pictures in this folder; {ELSEWHERE}"]


def test_links_are_followed_but_not_in_circles(tree):
    (tree / "a" / "round").symlink_to(tree / "a")
    (tree / "a" / "self.jpg").symlink_to("self.jpg")
    (tree / "a" / "to-c").symlink_to(tree / "c")
    paths, _ = found("a")
    assert paths == ["a/1.jpg", "a/b/2.PNG", "a/self.jpg", "a/to-c/x y[1].webp", "a/to-c/é\n.bmp"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_that_cannot_be_listed_is_named(tree):
    (tree / "a" / "b").chmod(0)
    paths, said = found("a")
    (tree / "a" / "b").chmod(0o755)
    assert paths == ["a/1.jpg"]
    assert "a/b: cannot be listed" in said[0]


def test_folders_are_walked_lazily(tree):
    """The first of many comes before the last is looked at."""
    (tree / "a" / "b" / "2.PNG").unlink()
    paths = find_pictures(itertools.chain(["a"], iter(lambda: pytest.fail("looked ahead"), None)), pytest.fail)
    assert next(paths) == "a/1.jpg"
    paths.close()


def test_paths_from_a_stream():
    assert list(read_paths(io.BytesIO(b"a\r\nb c\n\n\xff.jpg"))) == ["a", "b c", os.fsdecode(b"\xff.jpg")]
    assert list(read_paths(io.BytesIO(b"a\nb\0c\0"), null=True)) == ["a\nb", "c"]
    long = [f"{number}/" + "x" * 1000 for number in range(300)]  # over several chunks
    assert list(read_paths(io.BytesIO("\n".join(long).encode()))) == long


def test_paths_come_from_a_pipe_as_they_are_written():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as sender:
        paths = read_paths(stream)
        sender.write(b"first\n")
        assert next(paths) == "first"
        sender.write(b"second\n")
        assert next(paths) == "second"
