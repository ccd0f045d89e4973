"""Every method that learns without labels, by name: a new one is a file and a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from vitrail.config import Config
from vitrail.methods.base import SelfSupervised
from vitrail.methods.dino import DINO, DINOSettings
from vitrail.methods.mae import MAE, MAESettings
from vitrail.methods.masked_patches import MaskedPatches, MaskedPatchesSettings
from vitrail.methods.simmim import SimMIM, SimMIMSettings


class Kind(NamedTuple):
    """A method's settings, and how it is built: from encoder, settings, preprocessing and seed."""

    settings: type[Config]
    build: Callable[[Any, Any, Any, int], SelfSupervised]


METHODS: dict[str, Kind] = {
    "masked-patches": Kind(MaskedPatchesSettings, MaskedPatches),
    "mae": Kind(MAESettings, MAE),
    "simmim": Kind(SimMIMSettings, SimMIM),
    "dino": Kind(DINOSettings, DINO),
}


def name_of(settings: Config) -> str:
    """The method that these settings are for."""
    return next(name for name, kind in METHODS.items() if isinstance(settings, kind.settings))
