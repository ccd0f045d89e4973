"""Jobs come back in order; a worker that dies is an error soon, whatever it was doing."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import torch

from vitrail.data.workers import Crew
from vitrail.errors import VitrailError

DEADLINE = 10


def square(job: int) -> torch.Tensor:
    return torch.full((3,), job * job)


def quick(job: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(400_000, dtype=torch.uint8), torch.arange(job % 7)


def slow(job: int) -> torch.Tensor:
    time.sleep(0.05)
    return torch.full((1000,), job)


def add_up(job: int) -> float:
    return float((torch.ones(600, 600) @ torch.full((600, 600), float(job))).sum())


def dies(job: int) -> int:
    if job == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def threads(_: int) -> int:
    return torch.get_num_threads()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_in_order_again_and_again(workers: int) -> None:
    (torch.ones(600, 600) @ torch.ones(600, 600)).sum()  # torch's threads exist before the fork
    crew = Crew(square, workers)
    for count in (0, 1, 7, 20):
        assert [int(made[0]) for made in crew.run(range(count))] == [job * job for job in range(count)]


def test_a_worker_keeps_to_one_thread() -> None:
    assert list(Crew(threads, 1).run([0])) == [1]


def test_a_worker_can_compute_after_the_parent_did() -> None:
    expected = add_up(2)
    assert list(Crew(add_up, 1).run([2])) == [expected]


def test_two_runs_at_once_are_our_mistake() -> None:
    crew = Crew(square, 1)
    first = crew.run(range(5))
    next(first)
    list(crew.run(range(2)))
    with pytest.raises(AssertionError, match="another run"):
        next(first)


def test_workers_end_with_their_crew() -> None:
    crew = Crew(square, 2)
    list(crew.run(range(4)))
    workers = crew._processes
    assert [worker.is_alive() for worker in workers] == [True, True]
    del crew
    assert [worker.is_alive() for worker in workers] == [False, False]


def test_a_worker_that_dies_at_its_work() -> None:
    crew = Crew(dies, 1)
    start = time.monotonic()
    with pytest.raises(VitrailError, match=r"a data worker died \(killed by signal 9\); it may have run out of memory"):
        list(crew.run(range(10)))
    assert time.monotonic() - start < DEADLINE
    assert list(crew.run([1, 2])) == [1, 2]  # with new workers


def kill_one_worker(crew: Crew[int, Any]) -> BaseProcess:
    victim = crew._processes[0]
    victim.kill()
    return victim


def test_a_worker_killed_between_two_runs() -> None:
    crew = Crew(square, 2)
    list(crew.run(range(4)))
    victim = kill_one_worker(crew)
    while victim.is_alive():
        sum(range(1000))  # busy with something else, where no error must be raised
    start = time.monotonic()
    with pytest.raises(VitrailError, match="a data worker died"):
        list(crew.run(range(4)))
    assert time.monotonic() - start < DEADLINE


def seconds_to_the_error(crew: Crew[int, Any], after: int) -> float:
    made = crew.run(range(100_000))
    for _ in range(after):
        next(made)
    kill_one_worker(crew)
    start = time.monotonic()
    with pytest.raises(VitrailError, match=r"a data worker died \(killed by signal 9\)"):
        for _ in made:
            pass
    return time.monotonic() - start


def test_a_worker_killed_while_its_tensors_are_on_the_way() -> None:
    assert max(seconds_to_the_error(Crew(quick, 2), after=number) for number in (10, 20, 30)) < DEADLINE


@pytest.mark.full
def test_twenty_workers_killed_at_any_moment(record_property: pytest.RecordProperty) -> None:
    seconds = [seconds_to_the_error(Crew((quick, slow)[number % 2], 2), after=number) for number in range(1, 21)]
    assert max(seconds) < DEADLINE
    record_property("figure", f"{len(seconds)} killed, slowest error after {max(seconds):.1f} s")
