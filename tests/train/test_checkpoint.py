"""Checkpoints: whole or not at all, never half read, never the last one lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from vitrail.errors import FileError
from vitrail.train import checkpoint


def tensors(step):
    return {"weight": torch.full((4, 3), float(step)), "count": torch.tensor(step)}


def save(folder, *steps, keep=2):
    for step in steps:
        checkpoint.save(folder, step, tensors(step), {"step": step, "note": "ü"}, keep)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_comes_back(tmp_path):
    save(tmp_path / "new" / "checkpoints", 7)
    found, faults = checkpoint.load_newest(tmp_path / "new" / "checkpoints")
    assert found is not None
    assert (found.step, found.state, faults) == (7, {"step": 7, "note": "ü"}, [])
    assert all(torch.equal(found.tensors[name], value) for name, value in tensors(7).items())
    assert found.tensors["count"].dtype == torch.int64


def test_nothing_saved_is_nothing_found(tmp_path):
    assert checkpoint.load_newest(tmp_path / "none") == (None, [])
    assert not checkpoint.has_whole(tmp_path / "none")


def test_only_the_newest_are_kept(tmp_path):
    save(tmp_path, 3, 6, 9, 12)
    assert names(tmp_path) == ["step-00000009", "step-00000012"]
    save(tmp_path, 15, keep=1)
    assert names(tmp_path) == ["step-00000015"]


def test_steps_beyond_eight_digits_sort_as_numbers(tmp_path):
    save(tmp_path, 99_999_999, 100_000_000)
    found, _ = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert found.step == 100_000_000


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path):
    save(tmp_path, 3)
    (tmp_path / ".saving-0123").mkdir()
    (tmp_path / ".saving-0123" / "tensors.safetensors").write_bytes(b"half")
    assert checkpoint.load_newest(tmp_path)[1] == []
    save(tmp_path, 6)
    assert names(tmp_path) == ["step-00000003", "step-00000006"]


def test_other_files_in_the_folder_stay(tmp_path):
    save(tmp_path, 3, 6)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "step-best").mkdir()
    save(tmp_path, 9)
    assert {"notes.txt", "step-best"} < set(names(tmp_path))


def test_a_damaged_one_of_the_same_step_is_replaced(tmp_path):
    save(tmp_path, 3, 6)
    (tmp_path / "step-00000006" / "state.json").write_text("{}")
    save(tmp_path, 6)
    found, faults = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert (found.step, faults) == (6, [])
    assert names(tmp_path / "step-00000006") == ["manifest.json", "state.json", "tensors.safetensors"]


def test_damaged_ones_of_later_steps_do_not_push_out_whole_ones(tmp_path):
    """Saves by time need not come at the same steps again; a passed-over checkpoint would be counted as one of two."""
    save(tmp_path, 10, 20)
    (tmp_path / "step-00000020" / "tensors.safetensors").write_bytes(b"")
    save(tmp_path, 13, 16)
    assert names(tmp_path) == ["step-00000013", "step-00000016"]


def test_a_file_that_the_disk_cannot_read_is_passed_over(tmp_path):
    """Reading /proc/self/mem at its beginning is an input/output error, as of a failing disk."""
    save(tmp_path, 3, 6)
    broken = tmp_path / "step-00000006" / "tensors.safetensors"
    broken.unlink()
    broken.symlink_to("/proc/self/mem")
    found, faults = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert found.step == 3
    assert "tensors.safetensors cannot be read (Input/output error)" in str(faults[0])


def test_a_file_in_the_place_of_a_checkpoint(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "step-00000006").write_text("no folder")
    found, faults = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert (found.step, len(faults)) == (3, 1)


def test_all_damaged_is_none_found_and_all_named(tmp_path):
    save(tmp_path, 3, 6)
    for folder in tmp_path.iterdir():
        (folder / "manifest.json").unlink()
    found, faults = checkpoint.load_newest(tmp_path)
    assert found is None
    assert [Path(str(fault.where)).name for fault in faults] == ["step-00000006", "step-00000003"]
    assert not checkpoint.has_whole(tmp_path)


def test_a_manifest_of_another_shape(tmp_path):
    save(tmp_path, 3)
    for text in ("[]", "7", '"x"', "null", '{"step": 3}', '{"step": 3, "tensors.safetensors": 1}'):
        (tmp_path / "step-00000003" / "manifest.json").write_text(text)
        assert checkpoint.load_newest(tmp_path)[0] is None


def test_whole_by_the_manifest_but_unreadable_is_our_error(tmp_path):
    save(tmp_path, 3)
    folder = tmp_path / "step-00000003"
    (folder / "state.json").write_text("{")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["state.json"] = checkpoint._fingerprint(folder / "state.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileError, match="cannot be read"):
        checkpoint.load(tmp_path, 3)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_failing_disk_leaves_the_previous_one(tmp_path, monkeypatch, call):
    save(tmp_path, 3)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync", fail) if call == "fsync" else (Path, "rename", fail)))
    with pytest.raises(FileError, match=r"step-00000006: .*No space left on device; check the free space"):
        save(tmp_path, 6)
    monkeypatch.undo()
    assert names(tmp_path) == ["step-00000003"]
    assert checkpoint.has_whole(tmp_path)


def test_nothing_can_be_made_where_a_file_is(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(FileError, match="check the free space"):
        save(tmp_path / "checkpoints", 3)
