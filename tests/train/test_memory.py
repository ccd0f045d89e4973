"""Running out of memory, said with what to change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from train import tiny
from vitrail.errors import EXIT_CHECK_FAILED
from vitrail.train.loop import TrainingFailed
from vitrail.train.memory import explained, is_out_of_memory

TOO_MUCH = 1 << 60


@pytest.mark.parametrize(
    "take", [lambda: torch.empty(TOO_MUCH, dtype=torch.uint8), lambda: np.empty(TOO_MUCH, np.uint8)]
)
def test_real_failures_become_advice(take):
    with pytest.raises(TrainingFailed) as caught, explained(tiny.settings(batch_size=8, accumulate=3)):
        take()
    assert "not enough memory for batches of 8 pictures of 16x16" in str(caught.value)
    assert "--batch-size 4 accumulate=6" in str(caught.value)
    assert caught.value.exit_code == EXIT_CHECK_FAILED


def test_the_smallest_batch_is_not_halved():
    with pytest.raises(TrainingFailed, match="--image-size") as caught, explained(tiny.settings(batch_size=1)):
        raise MemoryError
    assert "--batch-size" not in str(caught.value)


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="shapes"), explained(tiny.settings()):
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried",
        "DefaultCPUAllocator: can't allocate memory",
        "std::bad_alloc",
        "could not create a primitive",
    ],
)
def test_what_is_said_on_other_machines(said):
    assert is_out_of_memory(RuntimeError(said))
