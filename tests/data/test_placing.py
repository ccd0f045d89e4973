"""In its place whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from vitrail.data.placing import placing
from vitrail.errors import FileError


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        with placing(target) as temporary:
            temporary.write_text(text)
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_stays_where_one_is(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with placing(tmp_path / "folder") as temporary:
            (temporary / "deep").mkdir(parents=True)
            (temporary / "deep" / "x").write_text(text)
    assert (tmp_path / "folder" / "deep" / "x").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_stays_that_came_in_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def just_too_late(self: Path, target: Path) -> Path:
        target.mkdir()
        (target / "x").write_text("first")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", just_too_late)
    with placing(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "x").write_text("second")
    assert (tmp_path / "folder" / "x").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError])
def test_nothing_is_left_of_what_failed(error: type[BaseException], tmp_path: Path) -> None:
    def fail() -> None:
        with placing(tmp_path / "folder") as temporary:
            temporary.mkdir()
            (temporary / "x").write_text("half")
            raise error

    with pytest.raises(FileError if error is OSError else error):
        fail()
    assert list(tmp_path.iterdir()) == []
