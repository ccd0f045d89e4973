"""One temperature, the best there is; thresholds for labels; never worse than nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from vitrail.evaluate.calibration import calibrated, fit_temperature, fit_thresholds
from vitrail.evaluate.metrics import label_counts

few = settings(max_examples=60)


def loss(logits, targets, temperature):
    """By torch, in double precision."""
    scaled = torch.from_numpy(logits).double() / temperature
    if targets.ndim == 2:
        return F.binary_cross_entropy_with_logits(scaled, torch.from_numpy(targets).double()).item()
    return F.cross_entropy(scaled, torch.from_numpy(targets)).item()


@st.composite
def answers(draw):
    """Logits of any scale; the truth is drawn from them, or has nothing to do with them."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, classes = draw(st.integers(1, 200)), draw(st.integers(2, 6))
    logits = generator.normal(size=(count, classes)) * 10 ** draw(st.floats(-3, 3))
    if draw(st.booleans()):  # several labels
        return logits, (generator.random(logits.shape) < 0.4).astype(np.int64)
    noise = generator.gumbel(size=logits.shape)
    return logits, (noise + logits * draw(st.sampled_from([0, 0.1, 1]))).argmax(axis=1)


@few
@given(answers())
def test_no_temperature_near_it_is_better_and_one_is_never_worse(found):
    logits, targets = found
    temperature = fit_temperature(logits, targets)
    reached = loss(logits, targets, temperature)
    assert reached <= loss(logits, targets, 1.0) + 1e-12
    if temperature != 1 and 0.0101 < temperature < 99:
        for factor in (0.9, 0.999, 1.001, 1.1):
            assert reached <= loss(logits, targets, temperature * factor) + 1e-12


@pytest.mark.parametrize("true", [0.3, 1.0, 2.5, 20.0])
@pytest.mark.parametrize("labels", [False, True])
def test_the_temperature_that_made_the_truth_is_found(true, labels):
    generator = np.random.default_rng(0)
    honest = generator.normal(size=(20_000, 5)) * 2
    if labels:
        targets = (generator.random(honest.shape) < 1 / (1 + np.exp(-honest))).astype(np.int64)
    else:
        targets = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    found = fit_temperature((honest * true).astype(np.float32), targets)
    assert found == pytest.approx(true, rel=0.05)


def test_all_right_is_no_reason_for_boundless_trust():
    logits = np.array([[2.0, 1.0], [0.0, 0.1]])
    assert fit_temperature(logits, np.array([0, 1])) == 1
    assert fit_temperature(logits - 0.5, np.array([[1, 1], [0, 0]])) == 1


def test_all_wrong_is_as_hot_as_it_gets():
    assert fit_temperature(np.array([[0.0, 5.0]]), np.array([0])) == pytest.approx(100)


def test_nothing_to_learn_from():
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, np.int64)) == 1
    assert fit_temperature(np.zeros((4, 3)), np.array([0, 1, 2, 0])) == 1
    assert fit_temperature(np.full((1, 2), np.nan), np.array([0])) == 1


def test_probabilities_are_torchs_and_survive_extremes():
    logits = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32) * 5
    theirs = torch.from_numpy(logits).double() / 1.7
    np.testing.assert_allclose(calibrated(logits, 1.7), theirs.softmax(1).numpy(), atol=1e-15)
    np.testing.assert_allclose(calibrated(logits, 1.7, multi_label=True), theirs.sigmoid().numpy(), atol=1e-15)
    extreme = np.array([[1e30, -1e30]], np.float32)
    assert calibrated(extreme, 0.01).tolist() == [[1, 0]]
    assert calibrated(extreme, 0.01, multi_label=True).tolist() == [[1, 0]]


@few
@given(st.integers(0, 2**32), st.sampled_from([1, 8]))
def test_no_threshold_gives_a_better_f1(seed, digits):
    generator = np.random.default_rng(seed)
    p, targets = generator.random((30, 3)).round(digits), (generator.random((30, 3)) < 0.3).astype(np.int64)
    chosen = fit_thresholds(p, targets)
    best = label_counts(p >= chosen, targets).f1
    for other in np.linspace(0, 1, 41):
        assert (label_counts(p >= other, targets).f1 <= best + 1e-12).all()


def test_a_label_that_no_picture_has_keeps_the_plain_threshold():
    assert fit_thresholds(np.array([[0.2], [0.9]]), np.zeros((2, 1), np.int64)).tolist() == [0.5]
