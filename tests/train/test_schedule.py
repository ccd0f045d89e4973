"""The learning rate as a share of its peak."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vitrail.train.schedule import SHAPES, learning_rate

shapes, shares = st.sampled_from(sorted(SHAPES)), st.floats(0, 0.9)


@given(shapes, st.floats(0, 1), shares)
def test_it_lies_between_nothing_and_the_peak(shape, progress, warmup):
    assert 0.0 <= learning_rate(shape, progress, warmup) <= 1.0


@given(shapes, shares, st.floats(0, 1), st.floats(0, 1))
def test_it_rises_before_and_falls_after_the_warmup(shape, warmup, one, other):
    early, late = sorted((one, other))
    before, after = learning_rate(shape, early, warmup), learning_rate(shape, late, warmup)
    assert before <= after if late < warmup else early < warmup or before >= after - 1e-12


@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_it_peaks_after_the_warmup_and_ends_at_nothing(shape):
    assert learning_rate(shape, 0.0, 0.2) == 0.0
    assert learning_rate(shape, 0.1, 0.2) == pytest.approx(0.5)
    assert learning_rate(shape, 0.2, 0.2) == pytest.approx(1.0)
    assert learning_rate(shape, 0.6, 0.2) == pytest.approx(0.5)
    assert learning_rate(shape, 1.0, 0.2) == pytest.approx(0.0, abs=1e-12)
    assert learning_rate(shape, 0.0, 0.0) == 1.0


def test_the_cosine_is_torch_s():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
    for step in range(50):
        assert learning_rate("cosine", step / 50, 0.0) == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        schedule.step()
