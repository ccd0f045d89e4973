"""`ViTClassifier`: scikit-learn's contract, by its own checks and in its own tools."""

from __future__ import annotations

import pickle
import re
import runpy
import sys
import tempfile

import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

import vitrail.estimator
from vitrail import ViTClassifier, VitrailError, load
from vitrail.errors import ImageError, MissingExtra

KINDS = np.array(["red", "green", "blue"])
Y = np.tile(KINDS, 16)


def coloured(count=48, seed=0):
    """Noise of 12 x 10 pixels, in which one channel is bright."""
    pixels = np.random.default_rng(seed).integers(0, 160, (count, 12, 10, 3), np.uint8)
    for channel in range(3):
        pixels[channel::3, ..., channel] += 95
    return pixels


X = coloured()


@pytest.fixture(scope="module")
def fitted():
    return ViTClassifier(steps=30, seed=1).fit(X, Y)


@pytest.fixture
def files(tmp_path):
    for number, pixels in enumerate(X):
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    return sorted(tmp_path.glob("*.png"))


# ---- fitting and predicting


def test_it_learns(fitted):
    new = coloured(seed=1)
    assert fitted.classes_.tolist() == sorted(KINDS)
    assert fitted.score(new, Y) > 0.9
    probabilities = fitted.predict_proba(new)
    assert probabilities.shape == (48, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(new), fitted.classes_[probabilities.argmax(axis=1)])
    assert fitted.n_features_in_ == 12 * 10 * 3
    assert fitted.evaluation_.count == 6  # two of each class were held back
    assert fitted.run_ is None


def test_floats_paths_and_other_layouts_mean_the_same_pictures(fitted, files):
    expected = fitted.predict_proba(X)
    forms = {
        "floats": X / 255,
        "float32": (X / 255).astype(np.float32),
        "channels first": np.moveaxis(X, -1, 1),
        "a list of arrays": list(X),
        "paths": files,
        "names": [str(path) for path in files],
        "an array of names": np.array([str(path) for path in files]),
        "an array of objects": np.array(files, dtype=object),
    }
    for name, form in forms.items():
        np.testing.assert_array_equal(fitted.predict_proba(form), expected, err_msg=name)


def test_any_size_can_be_asked_about(fitted):
    twice = X.repeat(2, axis=1).repeat(2, axis=2)
    assert fitted.score(twice, Y) > 0.9


@pytest.mark.parametrize("labels", [[7, 3], [True, False], ["ja", "nein"], [0.0, 1.0]], ids=str)
def test_labels_come_back_as_they_were(labels):
    y = np.array(labels)[np.arange(48) % 2]
    predicted = ViTClassifier(steps=1).fit(X[..., :1], list(y)).predict(X[..., :1])
    assert predicted.dtype == y.dtype
    assert set(predicted.tolist()) <= set(labels)


def test_several_labels():
    y = np.stack([np.arange(48) % 3 == 0, np.arange(48) % 3 != 2], axis=1)
    fitted = ViTClassifier(steps=30).fit(X, y)
    assert fitted.classes_.tolist() == [0, 1]
    predicted, probabilities = fitted.predict(X), fitted.predict_proba(X)
    assert predicted.shape == probabilities.shape == (48, 2)
    np.testing.assert_array_equal(predicted, probabilities >= np.array(fitted.artefact_.thresholds))
    assert fitted.score(X, y) > 0.8


def test_the_seed_decides_everything():
    one, same, other = (ViTClassifier(steps=2, seed=seed).fit(X, Y).predict_proba(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_parameters_reach_the_run(tmp_path):
    fitted = ViTClassifier(
        steps=np.int64(1), image_size=16, batch_size=8, val=0.25, model="Ti/8", out=tmp_path / "run", verbose=True
    ).fit(X, Y)
    config = fitted.artefact_.model.config
    assert (config.image_size, config.dim, config.depth) == ((16, 16), 192, 12)
    assert fitted.evaluation_.count == 12
    assert "batch_size: 8\n" in (fitted.run_ / "config.yaml").read_text()


def test_a_start_from_weights(fitted, tmp_path):
    fitted.artefact_.save(tmp_path / "model.safetensors")
    started = ViTClassifier(steps=1, start=str(tmp_path / "model.safetensors")).fit(X, Y)
    assert started.score(X, Y) > 0.9


def test_a_run_is_kept_where_it_is_asked_for(tmp_path, capsys):
    estimator = ViTClassifier(steps=1, out=tmp_path / "run")
    first = estimator.fit(X, Y).run_
    second = estimator.fit(X, Y).run_
    assert (first.name, second.name) == ("run", "run-2")
    assert (second / "report.html").is_file()
    answers = [load(second).predict(pixels).label for pixels in X]
    assert answers == estimator.predict(X).tolist()
    assert capsys.readouterr() == ("", "")


def test_no_folder_is_left_and_pickles_need_none(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    estimator = ViTClassifier(steps=1).fit(X, Y)
    assert list(tmp_path.iterdir()) == []
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))


def test_pictures_that_cannot_be_opened(files):
    files[4].write_text("hello")
    with pytest.warns(UserWarning, match=r"left out: .*04\.png: this is text"):
        fitted = ViTClassifier(steps=1).fit(files, Y)
    assert not hasattr(fitted, "n_features_in_")
    with pytest.raises(ImageError, match=r"04\.png: this is text"):
        fitted.predict(files)
    assert len(fitted.predict(files[:4])) == 4


# ---- scikit-learn's tools


def test_cross_validation_of_arrays_and_paths(files):
    scores = [cross_val_score(ViTClassifier(steps=1), pictures, Y, cv=2) for pictures in (X, files)]
    assert np.isfinite(scores).all()


def test_a_pipeline_and_a_grid():
    pipeline = Pipeline([("grey", FunctionTransformer(first_channel)), ("vit", ViTClassifier(steps=1))])
    grid = GridSearchCV(pipeline, {"vit__steps": np.array([1, 2])}, cv=2, error_score="raise").fit(X, Y)
    assert grid.best_params_["vit__steps"] in (1, 2)
    assert set(grid.predict(X)) <= set(KINDS)


def first_channel(pixels):
    return pixels[..., 0]


# ---- what cannot be used


@pytest.mark.parametrize(
    ("pictures", "labels", "said"),
    [
        (np.zeros((48, 30)), Y, "X: pictures of shape (48, 30); use N x rows x columns"),
        (X.astype(float), Y, "scale them to 0 ... 1"),
        (X.astype(int), Y, "pictures of type int64; use uint8"),
        (np.full(X.shape, np.nan), Y, "values from nan"),
        ([None] * 48, Y, "a picture cannot be a NoneType"),
        ("photo.jpg", Y, "pictures of shape ()"),
        (X, Y[:40], "inconsistent numbers of samples: [48, 40]"),
        (X, None, "requires y"),
        (X, ["red"] * 48, "all labels are of one class"),
        (X, np.linspace(0, 1, 48), "Unknown label type"),
    ],
)
def test_wrong_input_is_a_value_error(pictures, labels, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        ViTClassifier(steps=1).fit(pictures, labels)


def test_wrong_parameters():
    for parameters, said in (
        ({"steps": 1, "minutes": 1}, "the budget is minutes and steps"),
        ({"steps": 0}, "steps=0 must be more than 0"),
        ({"steps": 1, "model": "S/17x"}, "S/17x"),
        ({"steps": 1, "batch_size": 0}, "batch_size=0 must be"),
    ):
        with pytest.raises(VitrailError, match=said):
            ViTClassifier(**parameters).fit(X, Y)


def test_it_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        ViTClassifier().predict(X)


def test_other_channels_are_refused(fitted):
    with pytest.raises(ValueError, match="2 channels, not 3"):
        fitted.predict(X[..., :2])


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(MissingExtra, match=r'pip install "vitrail\[sklearn\]"'):
        runpy.run_path(vitrail.estimator.__file__)


# ---- scikit-learn's own checks


class FromTables(ViTClassifier):
    """scikit-learn's checks bring tables of numbers: here a row of them becomes a picture of one line.

    That numbers are finite, real and not sparse is checked on the way; all else is ours.
    """

    def fit(self, X, y):  # noqa: N803
        return super().fit(as_lines(validate_data(self, X)), y)

    def predict_proba(self, X):  # noqa: N803
        check_is_fitted(self)
        return super().predict_proba(as_lines(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = True, False, False
        tags.classifier_tags.poor_score = True  # a step teaches little
        return tags


def as_lines(table):
    return 1 / (1 + np.exp(-np.clip(table, -30, 30)))[:, None]


NOT_OURS = {
    "check_array_api_input": "is skipped unless SCIPY_ARRAY_API is set",
    "check_classifier_data_not_an_array": "is skipped without pandas",
    "check_classifiers_multilabel_output_format_decision_function": "there is no decision_function",
}
SLOW = {
    "check_classifiers_classes",
    "check_classifiers_multilabel_representation_invariance",
    "check_classifiers_train",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_fit_score_takes_y",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
}


def checks():
    for estimator, check in estimator_checks_generator(FromTables(steps=1), legacy=True):
        name = check.func.__name__
        if name not in NOT_OURS:
            yield pytest.param(estimator, check, id=name, marks=[pytest.mark.full] if name in SLOW else [])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_check(estimator, check):
    check(estimator)
