"""Vitrail: from a folder of pictures to a Vision Transformer you can trust, explain and ship.

The public API is the list below. Names are imported when they are first used, so `import vitrail` is instant and
does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitrail.version import __version__

if TYPE_CHECKING:
    from vitrail.config import Preprocessing, ResNetConfig, ViTConfig
    from vitrail.errors import VitrailError
    from vitrail.estimator import ViTClassifier
    from vitrail.explain.methods import explain
    from vitrail.model import ResNet, ViT, create_model
    from vitrail.predict.answers import Prediction
    from vitrail.predict.predictor import Predictor, load
    from vitrail.weights.artefact import Artefact
    from vitrail.weights.convert import convert

_HOME = {
    "Artefact": "vitrail.weights.artefact",
    "Prediction": "vitrail.predict.answers",
    "Predictor": "vitrail.predict.predictor",
    "Preprocessing": "vitrail.config",
    "ResNet": "vitrail.model",
    "ResNetConfig": "vitrail.config",
    "ViT": "vitrail.model",
    "ViTClassifier": "vitrail.estimator",
    "ViTConfig": "vitrail.config",
    "VitrailError": "vitrail.errors",
    "convert": "vitrail.weights.convert",
    "create_model": "vitrail.model",
    "load": "vitrail.predict.predictor",
}

__all__ = [
    "Artefact",
    "Prediction",
    "Predictor",
    "Preprocessing",
    "ResNet",
    "ResNetConfig",
    "ViT",
    "ViTClassifier",
    "ViTConfig",
    "VitrailError",
    "__version__",
    "convert",
    "create_model",
    "explain",
    "load",
]


def __getattr__(name: str) -> Any:
    if name == "explain":  # a package that can be called
        return import_module("vitrail.explain")
    if name not in _HOME:
        raise AttributeError(f"module 'vitrail' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
