"""T2: SIGTERM while training: saved at the next step, ended with the code for it, resumed to the same bits."""

from __future__ import annotations

import random
import shutil
import signal
import time

import pytest

from reliability import tiny_runs
from vitrail.errors import EXIT_INTERRUPTED
from vitrail.train import checkpoint

MOST_SECONDS = 2.0  # of this process, from the signal to the end


def terminate_and_resume(forge, pictures, run, reference, chance):
    child = forge.start(*tiny_runs.words(pictures, run))
    # Some steps are logged: training has begun.
    assert child.wait_until(lambda: len(tiny_runs.metrics(run)) >= chance.randint(1, 5))
    time.sleep(chance.uniform(0, 0.1))
    before = max(row["step"] for row in tiny_runs.metrics(run))
    signalled = time.monotonic()
    child.kill(chance.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGINT)))
    assert child.wait() == EXIT_INTERRUPTED, child.said()
    seconds = time.monotonic() - signalled
    assert f"vitrail train --resume {run}" in child.said()
    found, faults = checkpoint.load_newest(run / "checkpoints")
    assert not faults
    assert found is not None
    assert found.step >= before
    done = forge.run(*tiny_runs.again(run))
    assert done.wait() == 0, done.said()
    state = tiny_runs.state_of(run)
    assert [name for name in reference if state[name] != reference[name]] == []
    assert tiny_runs.debris(run) == []
    shutil.rmtree(run)
    return seconds


def terminated_runs(forge, pictures, undisturbed, folder, times, seed):
    chance, reference = random.Random(seed), tiny_runs.state_of(undisturbed)
    return max(terminate_and_resume(forge, pictures, folder / "run", reference, chance) for _ in range(times))


def test_terminated_runs_are_saved_and_resumed(forge, pictures, undisturbed, tmp_path):
    terminated_runs(forge, pictures, undisturbed, tmp_path, times=5, seed=0)


@pytest.mark.full
def test_terminated_runs_in_full(forge, pictures, undisturbed, tmp_path, record_property):
    slowest = terminated_runs(forge, pictures, undisturbed, tmp_path, times=50, seed=1)
    assert slowest <= MOST_SECONDS
    record_property("figure", f"50 of 50 saved and bit-equal, the slowest after {slowest:.2f} s")
