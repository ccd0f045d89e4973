"""Resident memory of this process, and the highest it went."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

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


def release_free_memory() -> None:
    """Give back what the allocator keeps of freed memory, where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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
