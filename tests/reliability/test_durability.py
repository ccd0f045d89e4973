"""T5: the order of every save as the kernel sees it: write, fsync, rename, fsync of the folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAVES = """
import sys
from pathlib import Path
import numpy as np, torch
from vitrail.config import ViTConfig
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.split import write_split
from vitrail.model import build
from vitrail.train import checkpoint
from vitrail.train.run import Run
from vitrail.weights.artefact import Artefact

folder = Path(sys.argv[1])
run = Run.create(folder / "run")
pictures = ArrayPictures(np.zeros((4, 8, 8, 3), np.uint8))
write_split(run.folder / "split.csv", Examples("x", pictures, np.arange(4) % 2, ("a", "b"), {"train": np.arange(4)}))
run.write_settings({"a": 1}, {})
for step in (1, 2, 3):
    checkpoint.save(run.checkpoints, step, {"w": torch.ones(9)}, {"step": step})
config = ViTConfig(16, 8, 2, dim=16, depth=1, heads=2, mlp_dim=32)
for _ in range(2):
    Artefact(build(config), ("a", "b")).save(run.model)
run.close()
"""
CALLS = "write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2"
_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Name and paths of each call that went well, in order."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("saves")
    log = folder / "strace.log"
    words = ["strace", "-f", "-y", "-s", "0", "-e", f"trace={CALLS}", "-o", str(log)]
    done = subprocess.run(
        [*words, sys.executable, "-c", SAVES, str(folder)], capture_output=True, text=True, check=False
    )
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match and int(match[3]) >= 0 and str(folder) in match[2]:
            paths = (
                re.findall(r"<([^>]+)>", match[2]) if "rename" not in match[1] else re.findall(r'"([^"]*)"', match[2])
            )
            found.append((match[1], [Path(path) for path in paths]))
    return folder, found


def is_temporary(path):
    return path.name.startswith(".vitrail-") or path.name.startswith(".tmp")


def test_every_save_is_safe_before_it_has_its_name(calls, record_property):
    folder, found = calls
    unsafe_files, unsafe_folders, renamed = set(), set(), []
    for name, paths in found:
        if "write" in name:
            unsafe_files.add(paths[0])
        elif "sync" in name:
            unsafe_files.discard(paths[0])
            unsafe_folders.discard(paths[0])
        else:
            source, target = paths
            if is_temporary(target):  # as safetensors puts its own file in the place of ours
                unsafe_files = {target if path == source else path for path in unsafe_files}
                continue
            inside = {path for path in unsafe_files | unsafe_folders if path == source or source in path.parents}
            assert not inside, f"{target} has its name before {inside} is on disk"
            unsafe_folders.add(target.parent)
            renamed.append(target.relative_to(folder / "run").as_posix())
    assert not unsafe_folders, "renames that a power cut would undo"
    names = {re.sub(r"\.saving-\w+", "saving", name) for name in renamed}
    assert {"split.csv", "config.yaml", "model.safetensors"} < names
    assert {f"checkpoints/step-0000000{step}" for step in (1, 2, 3)} < names
    inside = {"checkpoints/saving/" + name for name in ("tensors.safetensors", "state.json", "manifest.json")}
    assert inside < names
    record_property("figure", f"{len(renamed)} saves in order")


def test_the_manifest_is_written_last(calls):
    _, found = calls
    order = [paths[1].name for name, paths in found if "rename" in name and paths[1].parent.name.startswith(".saving-")]
    named = [name for name in order if not name.startswith(".")]
    assert named == ["tensors.safetensors", "state.json", "manifest.json"] * 3


def test_older_checkpoints_go_after_the_new_one_is_safe(calls):
    """By the order of `save`: the folder is synced before `_prune`; here, that it is synced after every rename."""
    folder, found = calls
    checkpoints = folder / "run" / "checkpoints"
    wanted = [i for i, (name, paths) in enumerate(found) if "rename" in name and paths[1].parent == checkpoints]
    for place in wanted:
        assert ("fsync", [checkpoints]) == found[place + 1]
