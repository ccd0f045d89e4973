"""What a model file says beside its weights, as JSON that nobody has to trust. Needs no torch.

It can name settings and words, nothing else; a value of another kind is an error, never a guess.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from vitrail.config import Preprocessing
from vitrail.errors import ConfigError, WeightsError

FORMAT_VERSION = 1
KEY = "vitrail"


class Answering(NamedTuple):
    """How logits become an answer, and pictures the input: the part of a description that needs no weights."""

    classes: tuple[str, ...] | None
    preprocessing: Preprocessing | None
    temperature: float | None
    unknown_below: float | None
    multi_label: bool
    thresholds: tuple[float, ...] | None


def parse_description(metadata: Mapping[str, str], source: str) -> dict[str, Any]:
    try:
        described = json.loads(metadata[KEY])
    except (ValueError, RecursionError):
        raise WeightsError("its description is not JSON", where=source, fix="convert it anew") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT_VERSION:
        version = described.get("format") if isinstance(described, dict) else None
        raise WeightsError(
            f"format {version!r} is not known to this version (it knows {FORMAT_VERSION})",
            where=source,
            fix="update vitrail",
        )
    return described


def read_answering(described: Mapping[str, Any]) -> Answering:
    """The values, each of its kind; `check_names` and `check_decision` say whether they fit the model."""
    preprocessing = described.get("preprocessing")
    return Answering(
        classes=_class_names(described.get("classes")),
        preprocessing=None if preprocessing is None else Preprocessing.from_dict(preprocessing),
        temperature=_optional_number("temperature", described.get("temperature")),
        unknown_below=_optional_number("unknown_below", described.get("unknown_below")),
        multi_label=_truth("multi_label", described.get("multi_label", False)),
        thresholds=_thresholds(described.get("thresholds")),
    )


def damaged(error: Exception, source: str) -> WeightsError:
    """An error in a description, with the file it is in."""
    if isinstance(error, WeightsError | ConfigError):
        return WeightsError(error.what, where=source, fix=error.fix)
    return WeightsError(f"its description is damaged ({error!r})", where=source, fix="convert it anew")


DAMAGE = (WeightsError, ConfigError, KeyError, TypeError, ValueError, AttributeError, OverflowError)


def check_names(names: tuple[str, ...], outputs: int) -> None:
    """One name for each output, no two alike."""
    if len(names) != outputs:
        raise WeightsError(f"{len(names)} class names for {outputs} outputs", fix="give one name for each class")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise WeightsError(f"two classes are called {twice!r}", fix="give every class its own name")


def check_decision(
    temperature: float | None, unknown_below: float | None, thresholds: tuple[float, ...] | None, outputs: int
) -> None:
    """Whether the numbers that turn logits into an answer can do so."""
    if temperature is not None and not 0 < temperature < math.inf:
        raise WeightsError(f"temperature={temperature} must be positive", fix="fit it anew, or use 1")
    limits = [("unknown_below", unknown_below or 0), *(("a threshold", t) for t in thresholds or ())]
    for name, value in limits:
        if not 0 <= value <= 1:
            raise WeightsError(f"{name} of {value} is no probability", fix="use a number from 0 to 1")
    if thresholds is not None and len(thresholds) != outputs:
        raise WeightsError(f"{len(thresholds)} thresholds for {outputs} outputs", fix="give one for each class")


def number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WeightsError(f"{name} must be a number", fix="convert it anew")
    return float(value)


def word(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise WeightsError(f"{name} must be a word", fix="convert it anew")
    return value


def _class_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WeightsError("class names must be a list of words", fix="convert it anew")
    return tuple(names)


def _optional_number(name: str, value: Any) -> float | None:
    return None if value is None else number(name, value)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WeightsError(f"{name} must be true or false", fix="convert it anew")
    return value


def _thresholds(values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise WeightsError("thresholds must be a list of numbers", fix="convert it anew")
    return tuple(number("a threshold", value) for value in values)
