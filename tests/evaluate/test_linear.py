"""The closed-form classifiers, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from vitrail.evaluate.linear import SHRINKAGES, STRENGTHS, fit_discriminants, fit_ridges


def made(count, width, several=False):
    random = np.random.default_rng(0)
    features = random.normal(3.0, random.uniform(0.1, 20, width), (count, width)).astype(np.float32)
    targets = random.integers(0, 2, (count, 4)) if several else random.integers(0, 4, count)
    return features, targets


@pytest.mark.parametrize(("count", "width"), [(60, 7), (12, 40)], ids=["more pictures", "more features"])
@pytest.mark.parametrize("several", [False, True])
def test_it_is_ridge_regression(count, width, several):
    features, targets = made(count, width, several)
    wanted = 2.0 * (targets if several else np.eye(4)[targets]) - 1
    scaled = StandardScaler().fit_transform(features.astype(np.float64))
    for strength, found in zip(STRENGTHS, fit_ridges(features, targets, 4, STRENGTHS), strict=True):
        peer = Ridge(alpha=strength * count).fit(scaled, wanted)
        np.testing.assert_allclose(found(features), peer.predict(scaled), atol=1e-4)
        assert (found.weight.shape, found.bias.shape) == ((4, width), (4,))


@pytest.mark.parametrize(("count", "width"), [(60, 7), (12, 40)], ids=["more pictures", "more features"])
def test_it_is_the_linear_discriminant(count, width):
    features, _ = made(count, width)
    targets = np.arange(count) % 4
    scaled = StandardScaler().fit_transform(features.astype(np.float64))
    for shrinkage, found in zip(SHRINKAGES, fit_discriminants(features, targets, 4, SHRINKAGES), strict=True):
        peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(scaled, targets)
        ours, theirs = found(features), peer.decision_function(scaled)  # which adds the same to every class
        np.testing.assert_allclose(ours - ours[:, :1], theirs - theirs[:, :1], atol=1e-3)


def test_the_discriminant_needs_every_class_and_one_class_a_picture():
    features, targets = made(40, 6)
    assert fit_discriminants(features, targets, 5, SHRINKAGES) == []
    assert fit_discriminants(*made(40, 6, several=True), 4, SHRINKAGES) == []


def test_features_that_never_change_do_no_harm():
    features, targets = made(30, 5)
    features[:, 2] = 7.0
    for found in fit_ridges(features, targets, 4, STRENGTHS) + fit_discriminants(features, targets, 4, SHRINKAGES):
        assert np.isfinite(found(features)).all()


def test_a_class_without_pictures_is_never_the_answer():
    features, targets = made(50, 6)
    targets[targets == 3] = 0
    for found in fit_ridges(features, targets, 4, STRENGTHS):
        assert not (found(features).argmax(axis=1) == 3).any()


def test_classes_that_can_be_told_apart_are():
    random = np.random.default_rng(1)
    targets = np.arange(90) % 3
    features = random.normal(0, 0.1, (90, 5)) + 10 * np.eye(3, 5)[targets]
    for found in fit_ridges(features, targets, 3, STRENGTHS[:3]) + fit_discriminants(features, targets, 3, SHRINKAGES):
        assert (found(features).argmax(axis=1) == targets).all()
