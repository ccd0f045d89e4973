"""The running average of the weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vitrail.train.ema import averaged


def steps(values, decay):
    module = nn.Linear(1, 1, bias=False)
    average = averaged(module, decay)
    for value in values:
        nn.init.constant_(module.weight, value)
        average.update_parameters(module)
    return average.module.weight.item(), average


def test_the_first_step_is_taken_as_it_is():
    assert steps([3.0], 0.99)[0] == 3.0


def test_it_follows_the_formula():
    values, decay = [1.0, 5.0, -2.0, 7.0, 0.5], 0.4
    expected = values[0]
    for count, value in enumerate(values[1:], start=1):
        keep = min(decay, (1 + count) / (10 + count))
        expected = keep * expected + (1 - keep) * value
    assert steps(values, decay)[0] == pytest.approx(expected, rel=1e-6)


def test_a_young_average_does_not_remember_the_start():
    """After 30 steps a plain average of decay 0.999 would still be 97 % the first weights."""
    assert steps([100.0] + [1.0] * 30, 0.999)[0] < 1.2


def test_its_age_is_part_of_its_state():
    _, average = steps([1.0, 2.0, 3.0], 0.9)
    again = averaged(nn.Linear(1, 1, bias=False), 0.9)
    again.load_state_dict(average.state_dict())
    assert int(again.n_averaged) == 3
    one, other = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    other.load_state_dict(one.state_dict())
    average.update_parameters(one)
    again.update_parameters(other)
    assert torch.equal(average.module.weight, again.module.weight)


def test_counters_are_copied_and_statistics_averaged():
    module = nn.BatchNorm1d(2)
    average = averaged(module, 0.5)
    for _ in range(3):
        module(torch.randn(8, 2))
        average.update_parameters(module)
    assert int(average.module.num_batches_tracked) == 3
    assert not torch.equal(average.module.running_mean, module.running_mean)
