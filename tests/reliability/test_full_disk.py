"""T4: a disk that is full: the checkpoint before is intact, nothing is left behind, and one line says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from reliability import tiny_runs
from vitrail.errors import EXIT_BAD_INPUT
from vitrail.train import checkpoint

MODULE_LIMITS = (0, 1, 7, 8, 100, 500, 1000, 4095, 4096, 4097, 8192, 10_000, 20_000, 40_000, 60_000, 79_000)
COMMAND_LIMITS = (2_500, 10_000, 50_000, 200_000, 400_000, 600_000)
ROOM = (0, 20_000, 100_000, 200_000, 400_000, 500_000, 600_000, 700_000)  # left on a small disk

SAVES = f"""
import resource, sys, torch
from pathlib import Path
from vitrail.errors import FileError
from vitrail.train import checkpoint
folder = Path(sys.argv[1])
checkpoint.save(folder, 1, {{"w": torch.ones(20_000)}}, {{"step": 1}})
for step, limit in enumerate({MODULE_LIMITS}, 2):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        checkpoint.save(folder, step, {{"w": torch.zeros(20_000)}}, {{"step": step}})
    except FileError as error:
        print(error)
    assert [path.name for path in folder.iterdir()] == ["step-00000001"], list(folder.iterdir())
    assert checkpoint.has_whole(folder)
"""


def test_saves_that_fail_at_any_byte(tmp_path, record_property):
    command = [sys.executable, "-W", "error", "-c", SAVES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(MODULE_LIMITS)
    assert all("the checkpoint: cannot be written" in line and "--resume" in line for line in lines)
    record_property("figure", f"{len(MODULE_LIMITS) + len(COMMAND_LIMITS) + len(ROOM)} full disks")


@pytest.fixture
def run(undisturbed, tmp_path):
    """A run with three steps to go."""
    shutil.copytree(undisturbed, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000024")
    return tmp_path / "run"


def check_failed_and_intact(done, run):
    assert done.wait() == EXIT_BAD_INPUT, done.said()
    line = next(line for line in done.said().splitlines() if line.startswith("vitrail: "))
    assert "cannot be written" in line
    assert "check the free space" in line or "the free space" in line
    assert "Traceback" not in done.said()
    found, faults = checkpoint.load_newest(run / "checkpoints")
    assert found is not None
    assert (found.step, faults) == (21, [])
    assert tiny_runs.debris(run) == []


def check_resumes(forge, run, undisturbed):
    done = forge.run(*tiny_runs.again(run))
    assert done.wait() == 0, done.said()
    state, reference = tiny_runs.state_of(run), tiny_runs.state_of(undisturbed)
    assert [name for name in reference if state[name] != reference[name]] == []


@pytest.mark.parametrize("limit", [pytest.param(n, marks=[pytest.mark.full] * (n != 10_000)) for n in COMMAND_LIMITS])
def test_no_file_may_grow_beyond(forge, run, undisturbed, limit):
    check_failed_and_intact(forge.run(*tiny_runs.again(run), limits={"RLIMIT_FSIZE": limit}), run)
    check_resumes(forge, run, undisturbed)


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if not mounted or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("room", [pytest.param(n, marks=[pytest.mark.full] * (n != 400_000)) for n in ROOM])
def test_a_full_disk(forge, run, undisturbed, small_disk, room):
    moved = small_disk / "run"
    shutil.copytree(run, moved)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - room))
    done = forge.run(*tiny_runs.again(moved))
    check_failed_and_intact(done, moved)
    assert "No space left on device" in done.said() or "I/O error" in done.said()
    filler.unlink()
    check_resumes(forge, moved, undisturbed)
