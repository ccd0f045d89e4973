"""T6: `kill -9` of one of two processes that train together: the other ends with an error, and the run goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from reliability import tiny_runs
from reliability.forge import Child, Forge
from vitrail.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED
from vitrail.train import checkpoint

MOST_SECONDS = 10.0  # from the death of one process to the end of the other
SPLIT = ("distribute=fsdp", "optim.name=adamw")


def start_two(forge: Forge, *words: object) -> list[Child]:
    """The command as torchrun would start it twice."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2))
    return [forge.start(*words, environment=common | rank) for rank in ranks]


def run_two(forge: Forge, *words: object) -> None:
    for child in start_two(forge, *words):
        assert child.wait() == 0, child.said()


def words_for(run: Path, begun: list[object]) -> list[object]:
    """Resume; a run that was killed before it wrote its settings is begun again."""
    return tiny_runs.again(run) if (run / "config.yaml").exists() else begun


def kill_one(forge: Forge, run: Path, begun: list[object], chance: random.Random) -> float:
    """Kill one of the two somewhere on the way; how long the other took to end."""
    before = max(checkpoint.steps_in(run / "checkpoints"), default=0)
    children = start_two(forge, *words_for(run, begun))
    ahead = before + chance.choice((3, 3, 6))
    assert children[0].wait_until(lambda: max(checkpoint.steps_in(run / "checkpoints"), default=0) >= ahead)
    time.sleep(chance.uniform(0, 0.1))
    victim = chance.randrange(2)
    children[victim].kill(signal.SIGKILL)
    died = time.monotonic()
    assert children[victim].wait() == -signal.SIGKILL
    assert children[1 - victim].wait() == EXIT_CHECK_FAILED, children[1 - victim].said()
    seconds = time.monotonic() - died
    said = children[1 - victim].said()
    assert "another process of this run ended" in said
    assert "--resume" in said
    assert "Traceback" not in said
    found, faults = checkpoint.load_newest(run / "checkpoints")
    assert not faults
    assert found is not None
    assert found.step >= ahead
    return seconds


def outcome(run: Path) -> dict[str, object]:
    """Everything of a finished run but the clock; the tensors as they are put together, however they were split."""
    found, faults = checkpoint.load_newest(run / "checkpoints")
    assert not faults
    assert found is not None
    tensors = {name: tensor.numpy().tobytes() for name, tensor in found.tensors.items()}
    evaluation = (run / "evaluation.json").read_text()
    rows = [row for row in tiny_runs.metrics(run) if row["kind"] == "val"]
    model = tiny_runs.content(run / "model.safetensors")
    return {"tensors": tensors, "model": model, "evaluation": evaluation, "validations": rows}


def killed(forge: Forge, pictures: Path, folder: Path, times: int, more: tuple[str, ...], seed: int) -> float:
    """One run with so many kills, compared with one that nothing disturbed."""
    chance, slowest = random.Random(seed), 0.0
    whole, run = folder / "whole" / "run", folder / "killed" / "run"
    steps = 2 * times * tiny_runs.STEPS  # so that none of the kills comes after the last step
    run_two(forge, *tiny_runs.words(pictures, whole, *more, steps=steps))
    begun = tiny_runs.words(pictures, run, *more, steps=steps)
    for _ in range(times):
        slowest = max(slowest, kill_one(forge, run, begun, chance))
    run_two(forge, *words_for(run, begun))
    expected, found = outcome(whole), outcome(run)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert tiny_runs.debris(run) == []
    shutil.rmtree(folder / "killed")
    return slowest


def test_after_two_kills_of_one_process_the_run_ends_as_if_nothing_had_happened(forge, pictures, tmp_path):
    killed(forge, pictures, tmp_path, times=2, more=("optim.name=adamw",), seed=0)


@pytest.mark.full
@pytest.mark.parametrize("more", [("optim.name=adamw",), SPLIT])
def test_kills_in_full(forge, pictures, tmp_path, more, record_property):
    slowest = killed(forge, pictures, tmp_path, times=5, more=more, seed=1)
    assert slowest <= MOST_SECONDS
    record_property("figure", f"10 kills, bit-equal, the other process ended after {slowest:.1f} s at most")


# ---- the processes that --nproc starts


def launched(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vitrail.cli.main", *map(str, words), "--nproc", "2"]
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def wait_for_step(process: subprocess.Popen[str], run: Path, step: int) -> None:
    while max(checkpoint.steps_in(run / "checkpoints"), default=0) < step:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def test_started_by_nproc_a_killed_process_ends_all(pictures, tmp_path):
    run = tmp_path / "run"
    process = launched(*tiny_runs.words(pictures, run, "optim.name=adamw", steps=10_000))
    wait_for_step(process, run, 3)
    psutil.Process(process.pid).children()[1].kill()
    _, said = process.communicate()
    assert process.returncode == EXIT_CHECK_FAILED, said
    assert "--resume" in said
    assert "Traceback" not in said


@pytest.mark.full
def test_started_by_nproc_a_signal_reaches_all_and_everything_is_saved(pictures, tmp_path):
    run = tmp_path / "run"
    process = launched(*tiny_runs.words(pictures, run, "optim.name=adamw", steps=60))
    wait_for_step(process, run, 3)
    process.terminate()
    _, said = process.communicate()
    assert process.returncode == EXIT_INTERRUPTED, said
    assert f"vitrail train --resume {run}" in said
    assert "Traceback" not in said
    process = launched(*tiny_runs.again(run))
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert tiny_runs.debris(run) == []
