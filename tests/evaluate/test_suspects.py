"""Wrong labels that were planted among real digits are suspected, and few right ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.evaluate.suspects import Suspect, likely_wrong, out_of_fold


def test_the_bar_of_each_class_is_its_own() -> None:
    """Class 0 is told with 0.9, class 1 with 0.55: 0.6 is much for class 1, and little for class 0."""
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.45, 0.55], [0.45, 0.55], [0.4, 0.6], [0.6, 0.4]])
    suspects = likely_wrong(probabilities, np.array([0, 0, 1, 1, 0, 1]))
    assert suspects == [Suspect(place=4, suggested=1, probability=0.6, own=0.4)]


@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_only_what_another_class_beats_is_suspected(classes: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.ones(classes), count)
    targets = random.integers(0, classes, count)
    suspects = likely_wrong(probabilities, targets)
    assert all(s.suggested != targets[s.place] and s.probability > s.own for s in suspects)
    margins = [s.probability - s.own for s in suspects]
    assert margins == sorted(margins, reverse=True)
    assert likely_wrong(np.eye(classes)[targets], targets) == []


def test_planted_wrong_labels_among_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    pictures, truth = datasets.load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    planted = random.permutation(len(truth))[:90]
    labels = truth.copy()
    labels[planted] = (truth[planted] + random.integers(1, 10, len(planted))) % 10
    probabilities = out_of_fold(pictures, labels, 10)
    assert np.allclose(probabilities.sum(axis=1), 1)
    suspects = likely_wrong(probabilities, labels)
    found = {suspect.place for suspect in suspects}
    assert len(found & set(planted.tolist())) >= 0.75 * len(planted)  # a class's bar is its mean, which some stay below
    assert sum(s.place in planted for s in suspects[:60]) >= 57
    right = [s.suggested == truth[s.place] for s in suspects if s.place in planted]
    assert np.mean(right) > 0.85


def test_a_class_is_spread_over_all_folds() -> None:
    """With only two pictures of a class, each is judged by a probe that saw the other one."""
    random = np.random.default_rng(0)
    features = np.concatenate([random.normal(-3, 1, (50, 4)), random.normal(3, 1, (2, 4))])
    targets = np.array([0] * 50 + [1] * 2)
    assert (out_of_fold(features, targets, 2)[-2:].argmax(axis=1) == 1).all()
