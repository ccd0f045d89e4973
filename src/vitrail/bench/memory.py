"""Resident memory of a process, and the highest it went; and a process to measure it in that has no past."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vitrail.train.allocator import release_free_memory

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """Peak resident memory from here on: `PeakMemory()` before the work, `read()` after it. In bytes."""

    def __init__(self) -> None:
        release_free_memory()
        self.source = (
            "VmHWM after clear_refs" if _reset_peak() else "getrusage ru_maxrss (peak since the process began)"
        )
        self.before = _status("VmRSS") or _max_rss()

    def read(self) -> dict[str, Any]:
        peak = _status("VmHWM") if self.source.startswith("VmHWM") else _max_rss()
        return {"growth": max(0, peak - self.before), "total": peak, "source": self.source}


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `work`, done in a copy of this process that ends with it.

    The copy inherits what is imported and nothing else, which is much quicker than a new process. It must be made
    before this process has computed anything: threads that a library started do not exist in the copy.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # newer Pythons warn of threads they see, which importing a library may leave
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _answer_and_end(work, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reply: dict[str, Any] = json.loads(text) if text else {"error": f"the measured process ended with status {status}"}
    return reply


def _answer_and_end(work: Callable[[], dict[str, Any]], writing: int) -> None:
    """Never returns: what comes after `fork` is for the parent."""
    try:
        reply = attempt(work)
        with os.fdopen(writing, "w") as pipe:
            json.dump(reply, pipe)
    finally:
        os._exit(0)


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `work`, or {"error": why}: whatever a library raises is an answer, and the run goes on."""
    try:
        return work()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _reset_peak() -> bool:
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return _status("VmHWM") > 0


def _status(key: str) -> int:
    if not STATUS.exists():
        return 0
    lines = (line.split() for line in STATUS.read_text().splitlines())
    return next((int(words[1]) * 1024 for words in lines if words and words[0] == f"{key}:"), 0)


def _max_rss() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
