"""Few-shot evaluation in closed form, beside the same least squares written out and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from vitrail.evaluate.fewshot import CONSTANT, SHOTS, STRENGTH, few_of_each, few_shot_accuracy, fit_few_shot

SHAPES = pytest.mark.parametrize(("count", "width"), [(80, 9), (12, 60)], ids=["more pictures", "more features"])


def made(count, width, classes=4, seed=0, apart=0.0):
    scales = np.random.default_rng(99).uniform(0.1, 9, width)
    labels = np.arange(count) % classes
    features = np.random.default_rng(seed).normal(2.0, scales, (count, width))
    return (features + apart * np.eye(classes, width)[labels]).astype(np.float32), labels


def augmented(features, like):
    mean, spread = like.mean(axis=0), like.std(axis=0) + 1e-5
    return np.hstack([(features - mean) / spread, np.full((len(features), 1), CONSTANT)])


@SHAPES
def test_it_is_the_least_squares_of_the_papers_code(count, width):
    features, labels = made(count, width)
    features64 = features.astype(np.float64)
    x, y = augmented(features64, features64), 2 * np.eye(4)[labels] - 1
    # Least squares of the rows, and of as many rows of the penalty, without any normal equations.
    stacked = np.vstack([x, np.sqrt(STRENGTH) * np.eye(width + 1)])
    weights = np.linalg.lstsq(stacked, np.vstack([y, np.zeros((width + 1, 4))]), rcond=None)[0]
    asked = made(20, width, seed=1)[0]
    expected = augmented(asked.astype(np.float64), features64) @ weights
    np.testing.assert_allclose(fit_few_shot(features, labels, 4)(asked), expected, atol=1e-6)


@SHAPES
@pytest.mark.parametrize("l2", [1.0, STRENGTH])
def test_scikit_learns_ridge_without_an_intercept_is_the_same(count, width, l2):
    features, labels = made(count, width)
    features64 = features.astype(np.float64)
    peer = Ridge(alpha=l2, fit_intercept=False).fit(augmented(features64, features64), 2 * np.eye(4)[labels] - 1)
    expected = peer.predict(augmented(features64, features64))
    np.testing.assert_allclose(fit_few_shot(features, labels, 4, l2)(features), expected, atol=1e-6)


@settings(max_examples=50)
@given(st.integers(1, 30), st.integers(0, 99), st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_each_class_gives_as_many_as_asked_or_all_it_has(shots, seed, labels):
    labels = np.array(labels)
    chosen = few_of_each(labels, 5, shots, seed)
    assert len(set(chosen.tolist())) == len(chosen)
    counts = np.bincount(labels[chosen], minlength=5)
    assert counts.tolist() == np.minimum(np.bincount(labels, minlength=5), shots).tolist()
    assert set(chosen.tolist()) <= set(few_of_each(labels, 5, shots + 1, seed).tolist())


def test_other_seeds_choose_others_and_the_same_seed_the_same():
    labels = np.arange(300) % 3
    one, again, other = (few_of_each(labels, 3, 5, seed).tolist() for seed in (0, 0, 1))
    assert one == again != other


def test_accuracy_is_the_share_told_right():
    train, labels = made(200, 12)
    test, wanted = made(90, 12, seed=1)
    chosen = few_of_each(labels, 4, 10, 3)
    right = fit_few_shot(train[chosen], labels[chosen], 4)(test).argmax(axis=1) == wanted
    assert few_shot_accuracy(train, labels, test, wanted, 4, 10, 3) == right.mean()


def test_classes_that_stand_apart_are_learned_from_few():
    (train, labels), (test, wanted) = made(200, 12, apart=200.0), made(90, 12, seed=1, apart=200.0)
    found = [few_shot_accuracy(train, labels, test, wanted, 4, shots, 0) for shots in SHOTS]
    assert found == sorted(found)
    assert found[0] > 0.4  # chance is a quarter; the spread of one picture a class is a poor scale
    assert found[2:] == [1.0] * 2
    shuffled = np.random.default_rng(0).permutation(labels)
    assert few_shot_accuracy(train, shuffled, test, wanted, 4, 25, 0) < 0.7
