"""One object with every figure, that survives JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from vitrail.errors import CheckFailed, ConfigError
from vitrail.evaluate import metrics
from vitrail.evaluate.calibration import calibrated, fit_temperature
from vitrail.evaluate.evaluation import Confusion, Evaluation, evaluate_predictions

NAMES = ("ant", "bee", "cat", "dog", "eel", "fox")


@pytest.fixture
def answers():
    generator = np.random.default_rng(0)
    targets = generator.integers(0, 6, 400)
    return (generator.normal(size=(400, 6)) + 2 * np.eye(6)[targets]).astype(np.float32) * 4, targets


@pytest.fixture
def labels(answers):
    logits, _ = answers
    return logits - 4, (np.random.default_rng(1).random(logits.shape) < calibrated(logits - 4, multi_label=True)) * 1


def same_after_json(found):
    return Evaluation.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


def test_one_label_a_picture(answers):
    logits, targets = answers
    temperature = fit_temperature(logits, targets)
    found = evaluate_predictions(logits, targets, NAMES, temperature, unknown_below=0.4)
    p = calibrated(logits, temperature)
    assert found.accuracy == metrics.accuracy(p, targets) == np.trace(found.confusion) / 400
    assert found.interval[0] < found.accuracy < found.interval[1]
    assert found.top5 == metrics.top_k_accuracy(p, targets, 5)
    assert found.ece == pytest.approx(metrics.expected_calibration_error(p, targets))
    assert found.ece < found.raw_ece
    assert found.nll < found.raw_nll
    assert [score.name for score in found.classes] == list(NAMES)
    assert sum(score.support for score in found.classes) == sum(bin.count for bin in found.reliability) == 400
    assert len(found.coverage) == 100
    assert (found.coverage[-1].coverage, found.coverage[-1].accuracy) == (1, pytest.approx(found.accuracy))
    assert found.known == np.mean(p.max(axis=1) >= 0.4)
    assert found.known_accuracy > found.accuracy
    assert same_after_json(found)


def test_several_labels_a_picture(labels):
    logits, targets = labels
    found = evaluate_predictions(logits, targets, NAMES, thresholds=[0.4] * 6)
    chosen = calibrated(logits, multi_label=True) >= 0.4
    assert found.multi_label
    assert found.accuracy == metrics.subset_accuracy(chosen, targets)
    assert found.mean_average_precision == pytest.approx(np.mean([score.average_precision for score in found.classes]))
    assert found.confusion == found.coverage == found.confusions() == ()
    assert found.balanced_accuracy is None
    assert same_after_json(found)


def test_labels_that_no_picture_has_are_no_nan(labels):
    logits, targets = labels
    found = evaluate_predictions(logits, targets * 0, NAMES)
    assert found.mean_average_precision is None
    assert found.classes[0].average_precision is None
    assert same_after_json(found)


def test_two_classes_one_picture_and_nothing_known():
    found = evaluate_predictions(np.array([[0.0, 0.1]]), np.array([0]), ("a", "b"), unknown_below=0.9)
    assert (found.accuracy, found.top5, found.known, found.known_accuracy) == (0, None, 0, None)
    assert found.worst_classes() == found.classes[:1]
    assert found.confusions() == (Confusion("a", "b", 1),)
    assert same_after_json(found)
    assert all(name and value for name, value in found.rows())


def test_worst_classes_and_confusions_are_in_order(answers):
    found = evaluate_predictions(*answers, NAMES)
    recalls = [score.recall for score in found.worst_classes(6)]
    assert recalls == sorted(recalls)
    mistakes = found.confusions(4)
    assert [mistake.count for mistake in mistakes] == sorted((m.count for m in mistakes), reverse=True)
    first = mistakes[0]
    assert found.confusion[NAMES.index(first.true)][NAMES.index(first.predicted)] == first.count
    off_diagonal = np.array(found.confusion) - np.diag(np.diag(found.confusion))
    assert first.count == off_diagonal.max()


def test_the_same_seed_gives_the_same_evaluation(answers):
    assert evaluate_predictions(*answers, NAMES, seed=3) == evaluate_predictions(*answers, NAMES, seed=3)
    other = evaluate_predictions(*answers, NAMES, seed=4)
    assert other.balanced_interval != evaluate_predictions(*answers, NAMES, seed=3).balanced_interval


def test_rows_are_short_and_plain(answers):
    rows = dict(evaluate_predictions(*answers, NAMES).rows())
    assert rows["pictures"] == "400"
    assert "% (" in rows["accuracy"]
    assert "accuracy of those" not in rows


def test_what_cannot_be_evaluated():
    with pytest.raises(ConfigError, match="no pictures"):
        evaluate_predictions(np.zeros((0, 2)), np.zeros(0, np.int64), ("a", "b"))
    with pytest.raises(CheckFailed, match="answers to 1 of 2 pictures are not finite"):
        evaluate_predictions(np.array([[0, np.nan], [0, 1]]), np.array([0, 1]), ("a", "b"))


def test_no_torch_is_needed():
    code = "import sys; sys.modules['torch'] = None; import vitrail.evaluate.evaluation, vitrail.evaluate.unknown"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
