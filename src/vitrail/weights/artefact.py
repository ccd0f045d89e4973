"""Our own file: one safetensors file that is everything one needs to use the model, anywhere, for ever.

Tensors have timm's names. The metadata entry `vitrail` is JSON: configuration, class names, preprocessing, grid,
calibration, data fingerprint, versions, and golden pairs: the answers this model gave to pictures drawn by a formula,
which any later loader can check.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitrail.config import Preprocessing, ResNetConfig, ViTConfig
from vitrail.errors import CheckFailed, ConfigError, WeightsError
from vitrail.model import Model
from vitrail.model.sizes import ModelConfig
from vitrail.version import __version__
from vitrail.weights.adapt import build_with
from vitrail.weights.durable import write_safetensors

FORMAT_VERSION = 1
KEY = "vitrail"
CONFIGS: dict[str, type[ViTConfig] | type[ResNetConfig]] = {"vit": ViTConfig, "resnet": ResNetConfig}
GOLDEN_TOLERANCE = 1e-4  # other machines and versions add in another order


@dataclass
class Artefact:
    """A model with all that belongs to it.

    `temperature` divides the logits before they become probabilities; an answer is 'unknown' where the largest of them
    is less than `unknown_below`. With `multi_label`, every class has a probability of its own, and is given where that
    reaches the class's one of `thresholds`.
    """

    model: Model
    classes: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None
    temperature: float | None = None
    unknown_below: float | None = None
    multi_label: bool = False
    thresholds: tuple[float, ...] | None = None
    data_fingerprint: str | None = None
    golden: dict[str, Any] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.classes is not None:
            self.set_classes(self.classes)
        self._check_decision()

    def set_classes(self, names: tuple[str, ...]) -> None:
        """Name the outputs: one name each, no two alike."""
        if len(names) != self.model.config.num_classes:
            fix = "give one name for each class"
            raise WeightsError(f"{len(names)} class names for {self.model.config.num_classes} outputs", fix=fix)
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise WeightsError(f"two classes are called {twice!r}", fix="give every class its own name")
        self.classes = names

    def _check_decision(self) -> None:
        """Whether the numbers that turn logits into an answer can do so."""
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            raise WeightsError(f"temperature={self.temperature} must be positive", fix="fit it anew, or use 1")
        limits = [("unknown_below", self.unknown_below or 0), *(("a threshold", t) for t in self.thresholds or ())]
        for name, value in limits:
            if not 0 <= value <= 1:
                raise WeightsError(f"{name} of {value} is no probability", fix="use a number from 0 to 1")
        outputs = self.model.config.num_classes
        if self.thresholds is not None and len(self.thresholds) != outputs:
            raise WeightsError(
                f"{len(self.thresholds)} thresholds for {outputs} outputs", fix="give one for each class"
            )

    def save(self, path: str | Path) -> None:
        """Write the file, atomically. The golden answers are taken anew from the model as it is."""
        metadata = {KEY: json.dumps(self.describe(), ensure_ascii=True), "format": "pt"}
        write_safetensors(path, self.model.state_dict(), metadata)

    def describe(self) -> dict[str, Any]:
        config = self.model.config
        kind = next(name for name, known in CONFIGS.items() if isinstance(config, known))
        return {
            "format": FORMAT_VERSION,
            "model": kind,
            "config": config.to_dict(),
            "grid": list(config.grid) if isinstance(config, ViTConfig) else None,
            "classes": None if self.classes is None else list(self.classes),
            "preprocessing": None if self.preprocessing is None else self.preprocessing.to_dict(),
            "temperature": self.temperature,
            "unknown_below": self.unknown_below,
            "multi_label": self.multi_label,
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "data_fingerprint": self.data_fingerprint,
            "versions": {
                "vitrail": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "golden": golden_answers(self.model),
        }

    def check(self) -> float:
        """The largest difference between the stored answers and the model's now; one too large is an error."""
        if self.golden is None:
            raise CheckFailed("this file holds no golden answers", where=self.source, fix="save it with vitrail")
        stored, now = torch.tensor(self.golden["answers"]), torch.tensor(golden_answers(self.model)["answers"])
        worst = (stored - now).abs().max().item() if stored.shape == now.shape else float("inf")
        if not worst <= GOLDEN_TOLERANCE * max(1.0, now.abs().max().item()):
            raise CheckFailed(
                f"the model's answers differ from the stored ones by {worst:.2g}",
                where=self.source,
                fix="the file was changed, or this version computes otherwise; convert it anew",
            )
        return worst


def golden_images(config: ModelConfig, count: int = 2) -> Tensor:
    """Pictures drawn by a formula, the same on every machine: waves of different direction in every channel."""
    height, width = config.image_size
    rows = torch.arange(height, dtype=torch.float64)[:, None]
    columns = torch.arange(width, dtype=torch.float64)[None, :]
    waves = [
        torch.sin(0.11 * (k + 1) * rows + 0.07 * (c + 1) * columns + k + c)
        for k in range(count)
        for c in range(config.channels)
    ]
    return torch.stack(waves).reshape(count, config.channels, height, width).float()


def golden_answers(model: Model, count: int = 2) -> dict[str, Any]:
    """What the model says to the golden pictures, in evaluation mode."""
    was_training = model.training
    parameter = next(model.parameters())
    with torch.inference_mode():
        answers = model.eval()(golden_images(model.config, count).to(parameter)).float().cpu()
    model.train(was_training)
    return {"pictures": "waves-1", "answers": [[round(x, 7) for x in row] for row in answers.tolist()]}


def read_artefact(tensors: dict[str, Tensor], metadata: Mapping[str, str], source: str) -> Artefact:
    """A file of ours, rebuilt. Its JSON is data: it can name settings and words, nothing else."""
    described = parse_description(metadata, source)
    try:
        config = CONFIGS[described["model"]].from_dict(described["config"])
        preprocessing = described.get("preprocessing")
        return Artefact(
            model=build_with(config, tensors),
            classes=_class_names(described.get("classes")),
            preprocessing=None if preprocessing is None else Preprocessing.from_dict(preprocessing),
            temperature=_optional_number("temperature", described.get("temperature")),
            unknown_below=_optional_number("unknown_below", described.get("unknown_below")),
            multi_label=_truth("multi_label", described.get("multi_label", False)),
            thresholds=_thresholds(described.get("thresholds")),
            data_fingerprint=_word("data_fingerprint", described.get("data_fingerprint")),
            golden=_golden(described.get("golden")),
            source=source,
        )
    except (WeightsError, ConfigError) as error:
        raise WeightsError(error.what, where=source, fix=error.fix) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WeightsError(f"its description is damaged ({error!r})", where=source, fix="convert it anew") from error


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


def _class_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WeightsError("class names must be a list of words", fix="convert it anew")
    return tuple(names)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WeightsError(f"{name} must be a number", fix="convert it anew")
    return float(value)


def _optional_number(name: str, value: Any) -> float | None:
    return None if value is None else _number(name, value)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WeightsError(f"{name} must be true or false", fix="convert it anew")
    return value


def _thresholds(values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise WeightsError("thresholds must be a list of numbers", fix="convert it anew")
    return tuple(_number("a threshold", value) for value in values)


def _word(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise WeightsError(f"{name} must be a word", fix="convert it anew")
    return value


def _golden(value: Any) -> dict[str, Any] | None:
    """Rows of numbers, of one length."""
    if value is None:
        return None
    rows = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        raise WeightsError("golden answers must be rows of numbers", fix="convert it anew")
    return {**value, "answers": [[_number("a golden answer", x) for x in row] for row in rows]}
