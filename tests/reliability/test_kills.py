"""T1: `kill -9` at any moment of training, any number of times, and the run ends as if nothing had happened."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability import tiny_runs
from reliability.forge import Child, Forge
from vitrail.train import checkpoint

KILLS_A_RUN = (1, 3, 2, 5, 1, 4, 1, 3)  # 20 kills in eight runs
EPOCH_END = 15  # a step after which there is a checkpoint and a new epoch begins: 5 batches an epoch

Moment = Callable[[Child, Path, random.Random], None]


def at_random(child: Child, _: Path, chance: random.Random) -> None:
    ends = time.monotonic() + chance.uniform(0.0, 2.0)
    child.wait_until(lambda: time.monotonic() >= ends, every=0.005)


def while_starting(child: Child, _: Path, chance: random.Random) -> None:
    """While data are read and, after the first kill, the checkpoint is loaded."""
    ends = time.monotonic() + chance.uniform(0.0, 0.3)
    child.wait_until(lambda: time.monotonic() >= ends, every=0.001)


def inside_a_save(child: Child, run: Path, chance: random.Random) -> None:
    child.wait_until(lambda: any((run / "checkpoints").glob(".saving-*")))
    time.sleep(chance.choice((0, 0, 0.001, 0.002, 0.004, 0.008)))


def inside_a_validation(child: Child, run: Path, chance: random.Random) -> None:
    """While the best model is written, which happens between a validation and the next step."""
    known = {path.name for path in run.glob(".vitrail-*")}
    child.wait_until(lambda: any(path.name not in known for path in run.glob(".vitrail-*.tmp")))
    time.sleep(chance.choice((0, 0, 0.001, 0.003)))


def at_an_epoch_end(child: Child, run: Path, chance: random.Random) -> None:
    child.wait_until((run / "checkpoints" / f"step-{EPOCH_END:08d}").exists)
    time.sleep(chance.uniform(0, 0.02))


def while_finishing(child: Child, run: Path, _: random.Random) -> None:
    child.wait_until((run / "evaluation.json").exists)


MOMENTS: tuple[Moment, ...] = (
    at_random,
    inside_a_save,
    while_starting,
    inside_a_validation,
    inside_a_save,
    at_random,
    at_an_epoch_end,
    inside_a_save,
    while_starting,
    while_finishing,
)


def next_words(run: Path, pictures: Path) -> list[object]:
    """Resume; a run that was killed before it wrote its settings is begun again, with the same command."""
    return tiny_runs.again(run) if (run / "config.yaml").exists() else tiny_runs.words(pictures, run)


def check_nothing_lost(run: Path, seen: int) -> int:
    """The newest checkpoint is whole, no older than what was seen, one interval at most behind what was done."""
    found, faults = checkpoint.load_newest(run / "checkpoints")
    assert not faults
    newest = found.step if found else 0
    logged = max((row["step"] for row in tiny_runs.metrics(run)), default=0)
    assert newest >= seen
    assert newest >= logged - tiny_runs.SAVE_STEPS
    return newest


def run_with_kills(forge: Forge, pictures: Path, run: Path, moments: list[Moment], chance: random.Random) -> int:
    """Start, kill, resume, kill ... and resume to the end; how many kills met a living process."""
    met = newest = 0
    for moment in moments:
        child = forge.start(*next_words(run, pictures))
        moment(child, run, chance)
        if not child.ended():
            child.kill(signal.SIGKILL)
        met += child.wait() == -signal.SIGKILL
        newest = check_nothing_lost(run, newest)
    done = forge.run(*next_words(run, pictures))
    assert done.wait() == 0, done.said()
    return met


def killed_runs(forge: Forge, pictures: Path, folder: Path, expected: Path, times: int, seed: int) -> tuple[int, int]:
    """Runs with so many kills together, each compared with the undisturbed one: kills, and runs that were equal."""
    chance, place, kills, equal = random.Random(seed), seed, 0, 0
    reference = tiny_runs.state_of(expected)
    for number in range(10 * times):
        if kills >= times:
            break
        count = min(KILLS_A_RUN[number % len(KILLS_A_RUN)], times - kills)
        moments = [MOMENTS[(place + n) % len(MOMENTS)] for n in range(count)]
        place += count
        run = folder / "run"
        kills += run_with_kills(forge, pictures, run, moments, chance)
        state = tiny_runs.state_of(run)
        assert [name for name in reference if state[name] != reference[name]] == []
        assert tiny_runs.debris(run) == []
        equal += 1
        shutil.rmtree(run)
    return kills, equal


def test_killed_runs_end_as_if_nothing_had_happened(forge, pictures, undisturbed, tmp_path, record_property):
    kills, equal = killed_runs(forge, pictures, tmp_path, undisturbed, times=20, seed=0)
    assert kills == 20
    record_property("figure", f"{kills} kills, {equal} of {equal} runs bit-equal")


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_killed_runs_in_full(forge, pictures, undisturbed, tmp_path, seed, record_property):
    kills, _ = killed_runs(forge, pictures, tmp_path, undisturbed, times=20, seed=seed)
    assert kills == 20
    record_property("figure", "200 kills with seeds 0 to 9")


def test_a_killed_run_with_workers_can_be_resumed_at_once(forge, pictures, undisturbed, tmp_path):
    """Workers live on for some seconds after their parent was killed; they must not hold the run."""
    run = tmp_path / "run"
    child = forge.start(*tiny_runs.words(pictures, run, "--workers", 2))
    assert child.wait_until((run / "checkpoints" / "step-00000003").exists)
    child.kill(signal.SIGKILL)
    child.wait()
    done = forge.run(*tiny_runs.again(run))
    assert done.wait() == 0, done.said()
    assert tiny_runs.state_of(run)["model"] == tiny_runs.state_of(undisturbed)["model"]
