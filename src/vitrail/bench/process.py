"""The other end of a worker's pipe: start it, give an order, get the answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Self

from vitrail.errors import VitrailError

THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class WorkerError(VitrailError):
    """A worker could not do what was asked; the numbers of that library are left out."""


class WorkerProcess:
    """One library in a process of its own, with its own number of threads."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        # Read before torch is: afterwards the libraries beneath it have made up their minds.
        settings = dict.fromkeys(THREAD_SETTINGS, str(threads))
        self._complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vitrail.bench.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, **settings},
            start_new_session=True,  # Ctrl-C reaches us alone, and we end the workers
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, order: str, **details: Any) -> dict[str, Any]:
        """Give an order and wait for the answer; a refusal, or the end of the process, is a `WorkerError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"order": order, **details}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(self._last_words(), where=self.name)
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"], where=f"{self.name} {order}")
        return reply

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            assert pipe is not None
            _close(pipe)

    def _last_words(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        lines = self._complaints.read().strip().splitlines()
        if code < 0:
            return f"the process was ended by signal {-code}" + (" (out of memory?)" if code == -9 else "")
        return f"the process ended with exit code {code}" + (f": {lines[-1]}" if lines else "")


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:  # an order that the ended process never read
        return
