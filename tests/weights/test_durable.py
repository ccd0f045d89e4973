"""Writing: the old file or the new one, never anything between, and nothing left over."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vitrail.errors import FileError
from vitrail.weights.safe import read_tensors, write_atomically, write_safetensors

LIMITS = (0, 100, 4096, 1 << 20, (4 << 20) - 1)
FULL_DISK = f"""
import resource, sys, torch
from vitrail.errors import FileError
from vitrail.weights.safe import write_safetensors
for limit in {LIMITS}:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_safetensors(sys.argv[1], {{"w": torch.zeros(1 << 20)}})
    except FileError as error:
        print(error)
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"w": torch.ones(3)}, {"version": "old"})
    return path


def assert_untouched(path: Path) -> None:
    assert read_tensors(path).metadata == {"version": "old"}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_full_disk_leaves_the_old_file(old: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", FULL_DISK, str(old)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert done.stdout.count("cannot be written") == len(done.stdout.splitlines()) == len(LIMITS)
    assert_untouched(old)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failing_disk_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(*((os, "fsync", fail) if call == "fsync" else (Path, "replace", fail)))
    with pytest.raises(FileError, match="Input/output error"):
        write_safetensors(old, {"w": torch.zeros(3)})
    monkeypatch.undo()
    assert_untouched(old)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_interrupted_writer_leaves_the_old_file(old: Path, error: type[BaseException]) -> None:
    def half(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    with pytest.raises(error):
        write_atomically(old, half)
    assert_untouched(old)


def test_order_is_write_sync_rename_sync_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), sync(fd))
    )
    monkeypatch.setattr(Path, "replace", lambda path, to: (steps.append("rename"), replace(path, to)))
    write_safetensors(tmp_path / "w.safetensors", {"w": torch.ones(1)})
    assert steps == ["file", "rename", "folder"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write_safetensors(tmp_path / "w.safetensors", {"w": torch.ones(1)})
    finally:
        os.umask(mask)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o644


def test_impossible_places(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere" / "w", tmp_path / "folder", "/proc/w", "nul\0"):
        with pytest.raises(FileError, match="cannot be written"):
            write_safetensors(path, {"w": torch.ones(1)})
    assert list((tmp_path / "folder").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
