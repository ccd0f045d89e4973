"""Doing jobs in order, here or in worker processes, with the same results."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from vitrail.errors import VitrailError

Job = TypeVar("Job")
Made = TypeVar("Made")

# Forked workers share the parent's memory, so that a cache of pictures is not copied to each, and start at once. A fork
# copies locks as they are: workers stay with one thread, so that they need none of torch's thread pool, and are started
# between batches, when this process decodes nothing. Where system libraries do not bear a fork (macOS) or there is none
# (Windows), workers are started afresh.
_START = "fork" if sys.platform == "linux" else "spawn"
_PREFETCH = 2  # batches a worker makes ahead
_DYING = 1.0  # seconds: a connection can be found broken just before its process is gone


class Crew(Generic[Job, Made]):
    """`run(jobs)` gives `work(job)` for each job, in order. Workers are started at the first run and kept.

    What `work` gives goes from process to process; tensors go by shared memory.
    """

    def __init__(self, work: Callable[[Job], Made], workers: int) -> None:
        self._work, self._workers = work, workers
        self._jobs: list[Job] = []
        self._runs = 0
        self._loader: DataLoader[Any] | None = None
        self._processes: list[BaseProcess] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[Made]:
        if self._workers == 0:
            return map(self._work, jobs)
        return self._run_elsewhere(jobs)

    def _run_elsewhere(self, jobs: Sequence[Job]) -> Iterator[Made]:
        self._jobs[:], self._runs = jobs, self._runs + 1
        run = self._runs
        try:
            made = self._start()
            for _ in jobs:
                assert run == self._runs, "the workers have gone on to another run"
                yield next(made)
        except (RuntimeError, OSError, EOFError) as error:
            self._check_alive(error)
            raise

    def _start(self) -> Iterator[Made]:
        if self._loader is not None:
            return iter(self._loader)  # the same workers
        self._loader = DataLoader(
            _Work(self._work),
            batch_sampler=self._jobs,  # type: ignore[arg-type]
            collate_fn=_as_it_is,
            num_workers=self._workers,
            persistent_workers=True,
            prefetch_factor=_PREFETCH,
            multiprocessing_context=_START,
            worker_init_fn=_quiet_worker,
            generator=torch.Generator(),  # its own: else every run would take a number from torch's global one
        )
        with _SignalKept():
            made = iter(self._loader)
        self._processes = made._workers  # type: ignore[attr-defined] # torch has no public name for them
        return made

    def _check_alive(self, error: Exception) -> None:
        """If a worker died, end the others, which may wait for it for ever, and say so."""
        ended = connection.wait([process.sentinel for process in self._processes], _DYING)
        if not ended:
            return
        dead = next(process for process in self._processes if process.sentinel in ended)
        dead.join()
        code = dead.exitcode or 0
        for process in self._processes:
            process.kill()
        self._loader, self._processes = None, []
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        fix = "it may have run out of memory: use fewer workers or a smaller batch, then resume"
        raise VitrailError(f"a data worker died ({how})", fix=fix) from error


class _Work(Dataset[Any]):
    """What torch's DataLoader takes for a data set: here a "batch of indices" is a job."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def __getitems__(self, job: Any) -> Any:
        return self._work(job)


class _SignalKept:
    """Keeps the DataLoader from handling SIGCHLD: it would raise in the middle of whatever the program is doing.

    A dead worker is noticed all the same, within five seconds, when its batch does not come.
    """

    def __enter__(self) -> None:
        self._kept = signal.getsignal(signal.SIGCHLD) if _can_handle_signals() else None

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            signal.signal(signal.SIGCHLD, self._kept)


def _can_handle_signals() -> bool:
    return hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread()


def _as_it_is(made: Made) -> Made:
    return made


def _quiet_worker(_: int) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
