"""Memory that a step frees, kept for the next one.

glibc gives large blocks back to the system as soon as they are free. Every step asks for the same ones again, gradients
above all, and the first touch of each of their pages is a trap into the system: thousands a step (LOG.md).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's names for them, from malloc.h
KEEP = 2**30  # bytes; a larger block is given back all the same
USUAL_TRIM, USUAL_MMAP = 64 * 2**20, 32 * 2**20  # where glibc's own thresholds end up after large blocks


@contextmanager
def memory_kept() -> Iterator[None]:
    """No memory is given back inside, and all that is free at the end. Another allocator than glibc's is left alone."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(TRIM_THRESHOLD, KEEP)
    libc.mallopt(MMAP_THRESHOLD, KEEP)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
        libc.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
        release_free_memory()


def release_free_memory() -> None:
    """Give back what the allocator keeps of freed memory, where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
