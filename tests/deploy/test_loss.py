"""Points of accuracy lost, told from few pictures better than by their labels alone."""

from __future__ import annotations

import numpy as np
import pytest

from vitrail.deploy.loss import points_lost

CLASSES = 10


def pictures(count, seed):
    """A calibrated model's probabilities, the truth drawn from them, and what a coarser copy of the model says."""
    random = np.random.default_rng(seed)
    logits = random.normal(scale=3.0, size=(count, CLASSES))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    targets = (probabilities.cumsum(axis=1) > random.random((count, 1))).argmax(axis=1)
    coarse = (logits + random.normal(scale=0.7, size=logits.shape)).argmax(axis=1)
    return probabilities, coarse, targets


def counted(probabilities, said, targets):
    before = probabilities.argmax(axis=1)
    return 100 * ((before == targets).mean() - (said == targets).mean())


def test_who_says_the_same_loses_nothing():
    probabilities, _, targets = pictures(50, 0)
    assert points_lost(probabilities, probabilities.argmax(axis=1), targets) == 0


def test_few_pictures_tell_more_than_their_labels():
    truth = counted(*pictures(200_000, 99))
    assert truth > 2
    samples = [pictures(300, seed) for seed in range(40)]
    by_labels = np.mean([abs(counted(*sample) - truth) for sample in samples])
    ours = np.mean([abs(points_lost(*sample) - truth) for sample in samples])
    assert ours < by_labels / 2


def test_the_luckiest_of_many_does_not_seem_better_than_the_original():
    samples = [pictures(300, seed) for seed in range(200)]
    luckiest = min(samples, key=lambda sample: counted(*sample))
    assert counted(*luckiest) < 0
    assert points_lost(*luckiest) > 1


@pytest.mark.parametrize("sure", [0.6, 0.999])
def test_of_many_pictures_the_labels_decide(sure):
    """The original is always wrong about what it says, and the candidate always right."""
    count = 20_000
    probabilities = np.full((count, 2), (1 - sure, sure))
    said = np.zeros(count, np.int64)
    assert points_lost(probabilities, said, said) == pytest.approx(-100, abs=1)
