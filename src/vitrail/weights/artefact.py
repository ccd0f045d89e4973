"""Our own file: one safetensors file that is everything one needs to use the model, anywhere, for ever.

Tensors have timm's names. The metadata entry `vitrail` is JSON: configuration, class names, preprocessing, grid,
calibration, data fingerprint, versions, and golden pairs: the answers this model gave to pictures drawn by a formula,
which any later loader can check.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitrail.config import Preprocessing, ResNetConfig, ViTConfig
from vitrail.errors import CheckFailed, WeightsError
from vitrail.model import Model
from vitrail.model.sizes import ModelConfig
from vitrail.version import __version__
from vitrail.weights.adapt import build_with
from vitrail.weights.description import (
    DAMAGE,
    FORMAT_VERSION,
    KEY,
    check_decision,
    check_names,
    damaged,
    number,
    parse_description,
    read_answering,
    word,
)
from vitrail.weights.durable import write_safetensors

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
        check_decision(self.temperature, self.unknown_below, self.thresholds, self.model.config.num_classes)

    def set_classes(self, names: tuple[str, ...]) -> None:
        """Name the outputs: one name each, no two alike."""
        check_names(names, self.model.config.num_classes)
        self.classes = names

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
        return Artefact(
            model=build_with(config, tensors),
            **read_answering(described)._asdict(),
            data_fingerprint=word("data_fingerprint", described.get("data_fingerprint")),
            golden=_golden(described.get("golden")),
            source=source,
        )
    except DAMAGE as error:
        raise damaged(error, source) from error


def _golden(value: Any) -> dict[str, Any] | None:
    """Rows of numbers, of one length."""
    if value is None:
        return None
    rows = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        raise WeightsError("golden answers must be rows of numbers", fix="convert it anew")
    return {**value, "answers": [[number("a golden answer", x) for x in row] for row in rows]}
