"""Memory that a step frees, kept for the next one."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

import pytest

from vitrail.train.allocator import memory_kept

PAGE, BLOCK = 4096, 40 * 2**20  # larger than glibc ever keeps by itself

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the allocator is not glibc's")


def a_step() -> None:
    """Gradients that are written and forgotten."""
    assert len(b"g" * BLOCK) == BLOCK


def faults_of_a_step() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    a_step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def test_a_step_finds_the_pages_of_the_one_before():
    with memory_kept():
        faults = [faults_of_a_step() for _ in range(6)]
    assert min(faults) < BLOCK // PAGE // 10, faults


def test_all_that_is_free_is_given_back_at_the_end():
    before = resident()
    with memory_kept():
        a_step()
        assert resident() - before > BLOCK // 2
    assert resident() - before < BLOCK // 2


def test_also_after_an_error():
    before = resident()
    with pytest.raises(ValueError, match="no number"):
        fail_after_a_step()
    assert resident() - before < BLOCK // 2


@memory_kept()
def fail_after_a_step() -> None:
    a_step()
    raise ValueError("no number")
