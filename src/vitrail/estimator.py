"""`ViTClassifier`: training and prediction behind scikit-learn's contract. N pictures, K classes."""

from __future__ import annotations

import io
import os
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from vitrail.data.arrays import as_pixels
from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.errors import ConfigError, FileError, ImageError, MissingExtra
from vitrail.evaluate.metrics import Floats
from vitrail.predict.many import stream_logits
from vitrail.predict.predictor import Predictor
from vitrail.train import job
from vitrail.train.facts import best_device
from vitrail.train.progress import Display
from vitrail.train.run import MODEL, new_folder
from vitrail.train.settings import Budget
from vitrail.weights.load import load

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
except ImportError as error:
    raise MissingExtra("scikit-learn", "sklearn") from error

DEFAULT_MINUTES = 5.0
BATCH_SIZE = 64  # pictures that are answered at once
NAME = "X"  # what scikit-learn calls the data; pictures are X[0], X[1] ...
LEFT_OUT = "left out"

Labels = NDArray[Any]


class ViTClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A Vision Transformer that learns to classify pictures in the minutes it is given.

    `X` is an array of pictures, N x rows x columns (x channels), uint8 or floats from 0 to 1; or N paths of picture
    files. `y` is N labels of any kind, or N x K of 0 and 1 where a picture can have several.

    One of `minutes`, `epochs` and `steps` is how long to train; five minutes if none is given. `model` is a name of
    `vitrail models`, `start` weights to start from, `image_size` the pixels a side that the model sees, `val` the part
    of the pictures that is held back to choose and calibrate the model. What is not given is chosen to fit. The run's
    folder, with its report, is kept if `out` says where; where that is taken, a number is added to the name.

    Fitted, it has `classes_`; `artefact_`, the model with all that belongs to it; `evaluation_`, how good it is on the
    pictures held back; `run_`, the folder of the run or None; and for arrays `n_features_in_`, the numbers a picture.
    """

    def __init__(
        self,
        *,
        minutes: float | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        model: str | None = None,
        start: str | None = None,
        image_size: int | None = None,
        batch_size: int | None = None,
        val: float | None = None,
        seed: int = 0,
        device: str | None = None,
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.minutes, self.epochs, self.steps = minutes, epochs, steps
        self.model, self.start, self.image_size, self.batch_size = model, start, image_size, batch_size
        self.val, self.seed, self.device, self.out, self.verbose = val, seed, device, out, verbose

    def fit(self, X: Any, y: ArrayLike) -> Self:  # noqa: N803
        """Learn. Pictures that cannot be opened are left out, each with a warning."""
        started = time.monotonic()
        pictures = _pictures(X)
        self.classes_, targets = _targets(y)
        check_consistent_length(pictures, targets)
        names, everything = tuple(map(str, self.classes_.tolist())), np.arange(len(pictures))
        planned = job.plan(self._wishes(), Examples(NAME, pictures, targets, names, {"train": everything}))
        with TemporaryDirectory(prefix="vitrail-") as temporary, Display() if self.verbose else _Silent() as display:
            folder = Path(temporary) / "run" if self.out is None else _free(Path(self.out))
            result = job.train(planned, folder, display, started=started)
            self.artefact_ = load(result.folder / MODEL)
        self.evaluation_, self.run_ = result.outcome.evaluation, None if self.out is None else result.folder
        if isinstance(pictures, ArrayPictures):
            self.n_features_in_ = pictures.pixels[0].size
        return self

    def predict(self, X: Any) -> Labels:  # noqa: N803
        """The most probable label of each picture; N x K of 0 and 1 where a picture can have several."""
        probabilities = self.predict_proba(X)
        if not self.artefact_.multi_label:
            return self.classes_[probabilities.argmax(axis=1)]
        thresholds = self.artefact_.thresholds
        return (probabilities >= (0.5 if thresholds is None else np.array(thresholds))).astype(int)

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """N x K, calibrated on the pictures held back. A picture that cannot be opened is an error."""
        check_is_fitted(self)
        pictures = _pictures(X)
        self.artefact_.model.to(self.device or best_device())
        predictor = Predictor.of(self.artefact_)
        sources = pictures.pixels if isinstance(pictures, ArrayPictures) else pictures.paths
        logits = []
        for _, found in stream_logits(predictor.engine, predictor.read, sources, batch_size=BATCH_SIZE):
            if isinstance(found, ImageError):
                raise found
            logits.append(found)
        return predictor.decision.probabilities(np.stack(logits))

    def _wishes(self) -> job.Wishes:
        budget = self._given("minutes", "epochs", "steps") or {"minutes": DEFAULT_MINUTES}
        choices = self._given("model", "start", "image_size", "val", "device", "seed")
        return job.Wishes(data=NAME, budget=Budget(**budget), changes=self._given("batch_size"), **choices)

    def _given(self, *names: str) -> dict[str, Any]:
        """Parameters that are not None, as plain values: a grid of them may come from numpy."""
        values = {name: getattr(self, name) for name in names}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        return {name: value for name, value in plain.items() if value is not None}

    def __getstate__(self) -> dict[str, Any]:
        """To be pickled, with the model on the processor, so that a machine without this device can read it."""
        if hasattr(self, "artefact_"):
            self.artefact_.model.cpu()
        state: dict[str, Any] = super().__getstate__()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = False, True, True
        tags.classifier_tags.multi_label = True
        tags.non_deterministic = (
            self.steps is None and self.epochs is None
        )  # how far minutes reach, the machine decides
        return tags


class _Silent(Display):
    """Shows nothing. Pictures that are left out are warnings, which must not be missed."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))

    def said(self, text: str) -> None:
        if text.startswith(LEFT_OUT):
            warnings.warn(text, UserWarning, stacklevel=2)


def _pictures(X: Any) -> ArrayPictures | FilePictures:  # noqa: N803
    """Pixels or paths, told by what the array holds."""
    array = np.asarray(X)
    if array.ndim == 1 and array.dtype.kind in "OU":
        return FilePictures([_path(entry) for entry in array.tolist()])
    try:
        return ArrayPictures(as_pixels(array, NAME), label=NAME)
    except FileError as error:
        raise ConfigError(error.what, where=NAME, fix=f"{error.fix}, or N paths") from error


def _path(entry: object) -> Path:
    if isinstance(entry, str | os.PathLike):
        return Path(entry)
    raise ConfigError(f"a picture cannot be a {type(entry).__name__}", where=NAME, fix="give paths, or one array")


def _targets(y: ArrayLike) -> tuple[Labels, NDArray[np.int64]]:
    """The labels there are, in order, and N class numbers; or N x K of 0 and 1, whose labels are column numbers."""
    if y is None:
        raise ConfigError("ViTClassifier requires y to be passed, but the target y is None", fix="give labels")
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        several = np.asarray(y).astype(np.int64)
        return np.arange(several.shape[1]), several
    labels, numbers = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(labels) < 2:
        raise ConfigError(f"all labels are of one class, {labels[0]!r}", where="y", fix="give two classes or more")
    return labels, numbers.astype(np.int64)


def _free(folder: Path) -> Path:
    """The folder, or one beside it where something is there already."""
    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    return new_folder(folder.name, folder.parent) if taken else folder
