"""The three classifiers together, and the choice of the strength."""

from __future__ import annotations

import json

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from vitrail.evaluate.fewshot import few_shot_accuracy
from vitrail.evaluate.knn import knn_accuracy
from vitrail.evaluate.linear import STRENGTHS
from vitrail.evaluate.probing import Labelled, choose_strength, probe_features


def made(count, seed, width=30, classes=3):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    features = random.normal(0, 1, (count, width)) + 1.2 * np.eye(classes, width)[labels]
    return Labelled(features.astype(np.float32), labels)


def test_each_part_is_the_classifier_of_its_name():
    train, val, test = made(120, 0), made(60, 1), made(200, 2)
    found = probe_features(train, test, 3, val=val, shots=(1, 10), seeds=(0, 1, 2), k=7)
    given = (*train, *test, 3)
    assert found.knn == knn_accuracy(*given, k=7)
    assert [few.shots for few in found.few_shot] == [1, 10]
    for few in found.few_shot:
        assert few.accuracies == tuple(few_shot_accuracy(*given, few.shots, seed) for seed in range(3))
        assert (few.mean, few.spread) == (np.mean(few.accuracies), np.std(few.accuracies))
    scaler = StandardScaler().fit(train.features)
    peer = RidgeClassifier(alpha=found.linear_strength * 120).fit(scaler.transform(train.features), train.labels)
    assert found.linear == peer.score(scaler.transform(test.features), test.labels)
    assert json.loads(json.dumps(found.to_dict()))["few_shot"][1]["shots"] == 10


def test_the_strength_is_the_best_in_validation_never_in_the_test():
    train, val = made(40, 0), made(500, 1)
    scaler = StandardScaler().fit(train.features)
    scores = [
        RidgeClassifier(alpha=strength * 40)
        .fit(scaler.transform(train.features), train.labels)
        .score(scaler.transform(val.features), val.labels)
        for strength in STRENGTHS
    ]
    best = max(strength for strength, score in zip(STRENGTHS, scores, strict=True) if score == max(scores))
    assert choose_strength(train, val, 3) == best
    found = [probe_features(train, made(9, seed), 3, val=val, shots=(), seeds=(0,), k=1) for seed in (5, 6)]
    assert {probing.linear_strength for probing in found} == {best}


def test_without_validation_a_part_of_the_training_pictures_decides():
    train = made(100, 0)
    held = np.arange(100) % 10 == 9
    rest, tenth = (Labelled(train.features[part], train.labels[part]) for part in (~held, held))
    assert choose_strength(train, None, 3) == choose_strength(rest, tenth, 3)
    assert choose_strength(made(4, 0), None, 3) in STRENGTHS
