"""Our figures are scikit-learn's and torchmetrics'; where those have none, they are counted by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles  # noqa: F401 (lets torchmetrics find a torchvision that can be imported)
from vitrail.evaluate import metrics as m

EQUAL = {"rtol": 0, "atol": 1e-6}
few = settings(max_examples=60)


@pytest.fixture(scope="module")
def sk():
    return pytest.importorskip("sklearn.metrics")


@pytest.fixture(scope="module")
def tm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchmetrics").functional.classification


@st.composite
def answers(draw, least_classes=2, absent=True):
    """Probabilities and targets; with `absent`, few pictures, so that classes go missing."""
    classes, count = draw(st.integers(least_classes, 8)), draw(st.integers(1 if absent else 40, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = generator.normal(size=(count, classes)) * draw(st.sampled_from([0.1, 1.0, 5.0]))
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return exact, generator.integers(0, classes, count)


@st.composite
def labelled(draw):
    classes, count = draw(st.integers(2, 6)), draw(st.integers(2, 50))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = generator.random((count, classes)).round(draw(st.sampled_from([1, 8])))  # rounded: many are equal
    return scores, (generator.random((count, classes)) < draw(st.sampled_from([0.05, 0.5]))).astype(np.int64)


@few
@given(answers())
def test_of_classes_as_in_sklearn(sk, found):
    p, targets = found
    counts, guessed, names = m.class_counts(m.confusion_matrix(p, targets)), p.argmax(1), range(p.shape[1])
    assert m.accuracy(p, targets) == pytest.approx(sk.accuracy_score(targets, guessed), abs=1e-9)
    np.testing.assert_array_equal(m.confusion_matrix(p, targets), sk.confusion_matrix(targets, guessed, labels=names))
    theirs = sk.precision_recall_fscore_support(targets, guessed, labels=names, zero_division=0)
    for ours, other in zip((counts.precision, counts.recall, counts.f1, counts.support), theirs, strict=True):
        np.testing.assert_allclose(ours, other, **EQUAL)
    recalls = sk.recall_score(targets, guessed, average=None, labels=np.unique(targets), zero_division=0)
    assert m.balanced_accuracy(counts) == pytest.approx(recalls.mean(), abs=1e-9)
    for average, ours in (("macro", m.macro_f1), ("weighted", m.weighted_f1), ("micro", m.micro_f1)):
        assert ours(counts) == pytest.approx(sk.f1_score(targets, guessed, average=average, zero_division=0), abs=1e-9)


@few
@given(answers(least_classes=3), st.integers(1, 9))
def test_of_probabilities_as_in_sklearn(sk, found, k):
    p, targets = found
    names = range(p.shape[1])
    assert m.negative_log_likelihood(p, targets) == pytest.approx(sk.log_loss(targets, p, labels=names), abs=1e-6)
    one_hot = np.eye(p.shape[1])[targets]
    assert m.brier_score(p, targets) == pytest.approx(np.sum((p - one_hot) ** 2, axis=1).mean(), abs=1e-9)
    if k < p.shape[1]:
        theirs = sk.top_k_accuracy_score(targets, p, k=k, labels=names)
        assert m.top_k_accuracy(p, targets, k) == pytest.approx(theirs, abs=1e-9)
    else:
        assert m.top_k_accuracy(p, targets, k) == 1


@few
@given(answers())
def test_as_in_torchmetrics(tm, found):
    p, targets = found
    classes, counts = p.shape[1], m.class_counts(m.confusion_matrix(p, targets))
    theirs, truth = torch.from_numpy(p), torch.from_numpy(targets)
    error = tm.multiclass_calibration_error(theirs, truth, classes, n_bins=15)
    assert m.expected_calibration_error(p, targets) == pytest.approx(error.item(), abs=1e-6)
    assert m.macro_f1(counts) == pytest.approx(tm.multiclass_f1_score(theirs, truth, classes).item(), abs=1e-6)
    assert m.accuracy(p, targets) == pytest.approx(
        tm.multiclass_accuracy(theirs, truth, classes, average="micro").item(), abs=1e-6
    )


@few
@given(labelled())
def test_of_labels_as_in_sklearn_and_torchmetrics(sk, tm, found):
    scores, targets = found
    areas, there = m.average_precisions(scores, targets), targets.any(axis=0)
    assert list(np.isnan(areas)) == list(~there)
    for column in np.flatnonzero(there):
        assert areas[column] == pytest.approx(sk.average_precision_score(targets[:, column], scores[:, column]))
    chosen = scores >= np.linspace(0.3, 0.7, scores.shape[1])
    counts = m.label_counts(chosen, targets)
    seen = list(np.flatnonzero(counts.predicted + counts.support))
    if seen:
        theirs = sk.f1_score(targets, chosen, labels=seen, average="macro", zero_division=0)
        assert m.macro_f1(counts) == pytest.approx(theirs, abs=1e-9)
    assert m.micro_f1(counts) == pytest.approx(sk.f1_score(targets, chosen, average="micro", zero_division=0), abs=1e-9)
    assert m.subset_accuracy(chosen, targets) == pytest.approx(sk.accuracy_score(targets, chosen), abs=1e-9)
    if there.any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about labels that no picture has
            theirs = tm.multilabel_average_precision(
                torch.from_numpy(scores), torch.from_numpy(targets), scores.shape[1], average=None
            )
        known = theirs.numpy()[there]
        assert m.mean_average_precision(areas) == pytest.approx(known.mean(), abs=1e-6)


def test_of_equal_probabilities_the_first_wins_at_every_rank():
    p = np.full((3, 3), 1 / 3)
    targets = np.array([0, 1, 2])
    assert m.accuracy(p, targets) == pytest.approx(1 / 3)
    assert [m.top_k_accuracy(p, targets, k) for k in (1, 2, 3)] == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_class_without_pictures_does_not_count():
    p = np.eye(4)[[0, 0, 1, 3]]  # class 2 is neither there nor predicted, class 3 is predicted only
    counts = m.class_counts(m.confusion_matrix(p, np.array([0, 0, 1, 1])))
    assert m.balanced_accuracy(counts) == pytest.approx((1 + 0.5) / 2)
    assert m.macro_f1(counts) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert counts.recall[2] == counts.precision[2] == counts.f1[2] == 0


def test_one_class_and_one_picture():
    p, targets = np.ones((1, 1)), np.zeros(1, np.int64)
    counts = m.class_counts(m.confusion_matrix(p, targets))
    assert m.accuracy(p, targets) == m.balanced_accuracy(counts) == m.macro_f1(counts) == 1
    assert m.negative_log_likelihood(p, targets) == m.brier_score(p, targets) == 0
    assert m.expected_calibration_error(p, targets) == 0


def test_a_probability_of_zero_is_dear_but_not_infinite():
    assert 30 < m.negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1])) < 40
    assert 30 < m.binary_cross_entropy(np.array([[1.0]]), np.array([[0]])) < 40


def test_labels_that_no_picture_has():
    areas = m.average_precisions(np.random.default_rng(0).random((5, 2)), np.zeros((5, 2), np.int64))
    assert np.isnan(areas).all()
    assert np.isnan(m.mean_average_precision(areas))
    nothing = m.label_counts(np.zeros((5, 2), bool), np.zeros((5, 2), np.int64))
    assert m.macro_f1(nothing) == m.micro_f1(nothing) == 0


def test_bins_hold_their_upper_edge():
    curve = m.reliability_curve(np.array([0.0, 0.2, 0.5, 0.50001, 1.0]), np.array([True] * 5), bins=2)
    assert curve.size.tolist() == [3, 2]
    assert curve.confidence.tolist() == pytest.approx([0.7 / 3, 1.50001 / 2])
    empty = m.reliability_curve(np.array([0.9]), np.array([False]), bins=2)
    assert (empty.confidence[0], empty.accuracy[0]) == (0, 0)
    assert m.calibration_error(empty) == pytest.approx(0.9)


def test_surest_first():
    curve = m.risk_coverage(np.array([0.9, 0.6, 0.8, 0.7]), np.array([True, False, True, True]))
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert curve.confidence.tolist() == [0.9, 0.8, 0.7, 0.6]
    assert curve.risk.tolist() == [0, 0, 0, 0.25]
    assert curve.area == pytest.approx(0.0625)


@few
@given(st.lists(st.tuples(st.sampled_from([0.3, 0.5, 0.9]), st.booleans()), min_size=1), st.randoms())
def test_the_order_of_pictures_does_not_matter(pairs, random):
    def curve(rows):
        confidence, right = zip(*rows, strict=True)
        return m.risk_coverage(np.array(confidence), np.array(right))

    shuffled = random.sample(pairs, len(pairs))
    np.testing.assert_allclose(curve(pairs).risk, curve(shuffled).risk, **EQUAL)
    assert curve(pairs).risk[-1] == pytest.approx(np.mean([not right for _, right in pairs]))


def test_an_interval_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(0)
    for share, count in ((0.9, 200), (0.5, 30), (0.99, 100)):
        successes = generator.binomial(count, share, 500)
        covered = np.mean([low <= share <= high for low, high in (m.wilson_interval(int(s), count) for s in successes)])
        assert covered > 0.91
    low, high = m.wilson_interval(10, 10)
    assert 0.6 < low < 0.8
    assert high == 1
    assert m.wilson_interval(0, 10)[0] == 0


def test_bootstrap_as_if_pictures_were_drawn_one_by_one():
    generator = np.random.default_rng(0)
    p, targets = generator.dirichlet([0.5] * 3, 80), generator.integers(0, 3, 80)
    counts = m.class_counts(m.confusion_matrix(p, targets))
    drawn = generator.integers(0, 80, (4000, 80))
    slow = [m.balanced_accuracy(m.class_counts(m.confusion_matrix(p[rows], targets[rows]))) for rows in drawn]
    fast = m.balanced_accuracy_interval(counts, seed=1, rounds=4000)
    assert fast == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.015)
    assert fast == m.balanced_accuracy_interval(counts, seed=1, rounds=4000)
    assert fast[0] < m.balanced_accuracy(counts) < fast[1]


def test_bootstrap_in_parts_is_bounded_in_memory():
    kinds = np.full(5_000, 2)  # 800 rounds at once
    low, high = m.bootstrap_interval(kinds, lambda drawn: drawn[:, :2500].sum(axis=1) / 10_000, seed=0, rounds=1000)
    assert low < 0.5 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.005, rel=0.15)
