"""Nearly all right answers stay known, and strange pictures mostly do not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.evaluate.calibration import calibrated
from vitrail.evaluate.unknown import fit_unknown


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([0.5, 0.9, 0.95, 1.0]), st.sampled_from([1, 12]))
def test_the_promised_share_of_right_answers_stays_known(seed, count, keep, digits):
    generator = np.random.default_rng(seed)
    p, targets = generator.dirichlet([1.0] * 4, count).round(digits), generator.integers(0, 4, count)
    threshold = fit_unknown(p, targets, keep)
    right = p.argmax(axis=1) == targets
    if right.any():
        assert np.mean(p[right].max(axis=1) >= threshold) >= keep - 1e-12
        stricter = np.nextafter(threshold, 2)
        assert np.mean(p[right].max(axis=1) >= stricter) < keep  # no higher threshold would do
    else:
        assert threshold == 0


def test_a_tenth_of_ten_is_one():
    p = np.column_stack([np.linspace(0.55, 0.95, 10), 1 - np.linspace(0.55, 0.95, 10)])
    assert fit_unknown(p, np.zeros(10, np.int64), keep=0.9) == p[1, 0]


def test_noise_is_mostly_unknown():
    generator = np.random.default_rng(0)
    targets = generator.integers(0, 5, 2000)
    logits = generator.normal(size=(2000, 5)) + 6 * np.eye(5)[targets]
    threshold = fit_unknown(calibrated(logits), targets)
    noise = calibrated(generator.normal(size=(2000, 5)))
    assert np.mean(noise.max(axis=1) < threshold) > 0.9
