"""All claims by name, in the order in which they are listed and run."""

from __future__ import annotations

from importlib import import_module

from vitrail.errors import ConfigError, did_you_mean
from vitrail.lab.claim import Claim

NAMES = (
    "positions",
    "pooling",
    "patch-size",
    "pre-norm",
    "data-size",
    "bigger",
    "hybrid",
    "depth-width",
    "regularisation",
    "optimiser",
    "resolution",
    "masked-patches",
    "mae",
    "few-shot",
    "attention-distance",
    "position-similarity",
    "filters",
)


def find(name: str) -> Claim:
    """A claim by name; its file has the same one."""
    if name not in NAMES:
        raise ConfigError(f"there is no claim {name!r}", fix=did_you_mean(name, NAMES) or "see `vitrail lab`")
    claim: Claim = import_module(f"vitrail.lab.{name.replace('-', '_')}").CLAIM
    return claim


def all_claims() -> list[Claim]:
    return [find(name) for name in NAMES]
