"""What is measured: sizes, modes, batches and threads, and how often."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vitrail.bench.peers import PEERS
from vitrail.config import ViTConfig, one_of
from vitrail.errors import ConfigError

SIZES = ("32px", "Ti", "S", "B")
# The backward pass multiplies twice for each product of the forward pass: once for the input, once for the weight.
PASSES = {"inference": 1, "training": 3}
MODES = tuple(PASSES)
SMALL_PICTURES = {
    "image_size": 32,
    "patch_size": 4,
    "num_classes": 10,
    "dim": 192,
    "depth": 9,
    "heads": 3,
    "mlp_dim": 768,
}


@dataclass(frozen=True)
class Preset:
    """How much is measured. `cell_seconds` bounds the rounds of a slow cell, but never below `least_repeats`."""

    sizes: tuple[str, ...] = SIZES
    batches: tuple[int, ...] = (1, 8, 32)
    threads: tuple[int, ...] = (1, 2)
    modes: tuple[str, ...] = MODES
    repeats: int = 9
    least_repeats: int = 3
    cell_seconds: float = 120.0
    measure_seconds: float = 0.3  # the shortest measurement: as many calls as this takes
    gemm_side: int = 2048


FULL = Preset()  # one to two hours on two cores
QUICK = Preset(sizes=("32px", "Ti"), batches=(8,), threads=(2,), repeats=5)  # about two minutes


class Cell(NamedTuple):
    """One row of the benchmark; every library has its numbers in it."""

    size: str
    mode: str
    batch: int
    threads: int

    def __str__(self) -> str:
        return f"{self.size} {self.mode}, batch {self.batch}, {self.threads} thread{'s' * (self.threads > 1)}"


def plan(sizes: Sequence[str], modes: Sequence[str], batches: Sequence[int], threads: Sequence[int]) -> list[Cell]:
    """All cells, those with the same number of threads together."""
    order = itertools.product(sorted(set(threads)), sizes, modes, sorted(set(batches)))
    cells = [Cell(size, mode, batch, count) for count, size, mode, batch in order]
    for cell in cells:
        one_of("modes", cell.mode, MODES)
        if cell.batch < 1 or cell.threads < 1:
            raise ConfigError(f"{cell} cannot be measured", fix="give batches and threads of at least 1")
    return cells


def shapes(sizes: Sequence[str] | Mapping[str, ViTConfig]) -> dict[str, ViTConfig]:
    """Configurations by name; all libraries have to be able to build them."""
    configs = dict(sizes) if isinstance(sizes, Mapping) else {name: shape(name) for name in sizes}
    for name, config in configs.items():
        if config.dim != config.heads * config.dim_head:
            raise ConfigError(f"{name}: not every library has heads * dim_head other than dim", fix="change dim_head")
    return configs


def shape(size: str) -> ViTConfig:
    """The configuration of a size by its short name ("S" is S/16), or by the paper's."""
    from vitrail.model.sizes import SIZES as KNOWN  # here, because the package around it imports torch
    from vitrail.model.sizes import model_config

    if size == "32px":
        return ViTConfig.from_dict(SMALL_PICTURES)
    config = model_config(f"{size}/16" if size in KNOWN else size)
    if not isinstance(config, ViTConfig) or config != model_config("B/16", **_basic_words(config)):
        raise ConfigError(f"{size!r} is not the paper's plain model", fix="choose a size such as S or B/32")
    return config


def _basic_words(config: ViTConfig) -> dict[str, object]:
    names = ("image_size", "patch_size", "num_classes", "dim", "depth", "heads", "mlp_dim", "dim_head")
    return {name: getattr(config, name) for name in names}


def check_peers(names: Sequence[str]) -> None:
    for name in names:
        one_of("peers", name, tuple(PEERS))
