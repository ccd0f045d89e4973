"""Weighted nearest neighbours, beside scikit-learn's."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from vitrail.evaluate import knn
from vitrail.evaluate.knn import knn_accuracy, knn_answers


def made(count, seed, classes=5, width=8):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    features = random.normal(0, 1.0, (count, width)) + 0.7 * np.eye(classes, width)[labels]
    return features.astype(np.float32) * random.uniform(0.1, 50, (count, 1)).astype(np.float32), labels


def unit(features):
    features = features.astype(np.float64)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_the_answers_are_scikit_learns(k, temperature):
    (train, labels), (test, wanted) = made(400, 0), made(150, 1)
    # Of unit vectors, the squared distance is 2 - 2 cosine.
    weigh = lambda distance: np.exp((1 - distance**2 / 2) / temperature)  # noqa: E731
    peer = KNeighborsClassifier(n_neighbors=k, weights=weigh, algorithm="brute").fit(unit(train), labels)
    expected = peer.predict(unit(test))
    assert knn_answers(train, labels, test, 5, k, temperature).tolist() == expected.tolist()
    assert knn_accuracy(train, labels, test, wanted, 5, k, temperature) == (expected == wanted).mean()


def test_blocks_change_nothing(monkeypatch):
    (train, labels), (test, _) = made(100, 0), made(37, 1)
    whole = knn_answers(train, labels, test, 5)
    monkeypatch.setattr(knn, "AT_ONCE", 250)  # two rows at a time
    assert knn_answers(train, labels, test, 5).tolist() == whole.tolist()


def test_memory_does_not_grow_with_the_number_of_questions(monkeypatch):
    monkeypatch.setattr(knn, "AT_ONCE", 2**16)
    train, labels = made(500, 0)

    def peak(count):
        test = made(count, 1)[0]
        tracemalloc.start()
        knn_answers(train, labels, test, 5)
        found = tracemalloc.get_traced_memory()[1] - 2 * test.nbytes
        tracemalloc.stop()
        return found

    assert peak(8000) < 1.5 * peak(1000)


def test_more_neighbours_than_pictures_are_all_of_them():
    (train, labels), (test, _) = made(7, 0), made(9, 1)
    assert knn_answers(train, labels, test, 5, k=50).tolist() == knn_answers(train, labels, test, 5, k=7).tolist()


def test_a_picture_is_its_own_nearest_and_zeros_do_no_harm():
    train, labels = made(60, 0)
    assert knn_accuracy(train, labels, train, labels, 5, k=1) == 1.0
    assert 0 <= knn_accuracy(train, labels, np.zeros_like(train), labels, 5) <= 1
    assert knn_answers(train, labels, train[:0], 5).shape == (0,)
