"""What training a model of the paper takes: arithmetic, memory, days and money, under stated assumptions.

A step of training is three forward passes of work. Of a machine's peak, training reaches a part: the paper's own runs
(table 2's core-days over table 6's exaFLOPs) reached 0.32 to 0.43 of a TPUv3's.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch

from vitrail.config import ViTConfig
from vitrail.errors import ConfigError, did_you_mean
from vitrail.model import build
from vitrail.model.cost import cost_table
from vitrail.model.sizes import ModelConfig, model_config

UTILISATION = 0.38
STATE_BYTES = 16  # a weight: itself, its gradient and two moments of Adam, float32
ACTIVATION_BYTES = 34  # a token, block and unit of width: 16-bit activations kept for the backward pass
DEGREES = (1, 8, 64)  # over how many devices weights and optimiser are divided (FSDP)
DEVICE_BATCH = 32  # pictures a device for the memory's sake
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9}


class Device(NamedTuple):
    """Peak of dense 16-bit products, memory, and an hour's price as assumed here, not an offer."""

    teraflops: float
    gigabytes: float
    euros: float


# Peaks from the makers' data sheets. A TPUv3 is one core, half a chip, as in the paper's core-days.
DEVICES = {
    "TPUv3": Device(61.5, 16, 1.0),
    "V100": Device(125, 32, 1.5),
    "A100": Device(312, 80, 2.0),
    "H100": Device(989, 80, 3.0),
    "T4": Device(65, 16, 0.4),
    "RTX4090": Device(165, 24, 0.5),
}


class Scale(NamedTuple):
    """What a training takes."""

    model: str
    parameters: int
    gigamacs: float  # a picture, forward
    pictures: float  # in all, each as often as it is seen
    exaflops: float
    hardware: str
    utilisation: float
    device_days: float
    days: float
    euros: float
    gigabytes: dict[int, float]  # a device, by FSDP degree
    fits: dict[int, bool]

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    def lines(self) -> list[str]:
        memory = ", ".join(
            f"{size:.1f} GB{'' if self.fits[degree] else ' (too much)'} over {degree}"
            for degree, size in self.gigabytes.items()
        )
        return [
            f"{self.model}: {self.parameters / 1e6:,.1f} M weights, {self.gigamacs:.1f} G multiply-adds a picture",
            f"{self.pictures:,.0f} pictures seen: {self.exaflops:,.1f} exaFLOPs",
            f"{self.hardware} at {self.utilisation:.0%} of its peak: {self.days:,.1f} days",
            f"{self.device_days:,.0f} days of one device, about {self.euros:,.0f} euros, at the prices assumed here",
            f"memory of a device, {DEVICE_BATCH} pictures at once, weights and optimiser divided: {memory}",
        ]


def scale(model: str, images: str, epochs: float, hardware: str, utilisation: float | None = None) -> Scale:
    """The cost of training `model` on so many `images` ("300M") for so many `epochs` on `hardware` ("8xA100")."""
    config, share = model_config(model), UTILISATION if utilisation is None else utilisation
    if not 0 < share <= 1 or epochs <= 0:
        raise ConfigError("--utilisation is a share of the peak and --epochs more than 0", fix="use 0.4 and 7")
    count, device = parse_hardware(hardware)
    parameters, macs = count_work(config)
    pictures = parse_count(images) * epochs
    flops = 6.0 * macs * pictures
    seconds = flops / (device.teraflops * 1e12 * share)
    memory = {degree: _gigabytes(config, parameters, degree) for degree in DEGREES}
    return Scale(
        model=model,
        parameters=parameters,
        gigamacs=macs / 1e9,
        pictures=pictures,
        exaflops=flops / 1e18,
        hardware=hardware,
        utilisation=share,
        device_days=seconds / 86400,
        days=seconds / 86400 / count,
        euros=seconds / 3600 * device.euros,
        gigabytes=memory,
        fits={degree: size <= device.gigabytes for degree, size in memory.items()},
    )


def count_work(config: ModelConfig) -> tuple[int, int]:
    """Weights, and multiply-adds of a picture, every token in every block as in the paper's code; nothing is built."""
    if isinstance(config, ViTConfig) and config.pool == "cls":
        config = config.replace(pool="mean", class_token=True)  # the class token alone would be cheaper to finish
    with torch.device("meta"):
        whole = cost_table(build(config))[-1]
    return whole.parameters, whole.macs


def _gigabytes(config: ModelConfig, parameters: int, degree: int) -> float:
    """Of one device: its part of weights and optimiser, one block gathered, the activations of its pictures."""
    if not isinstance(config, ViTConfig):
        raise ConfigError("memory is known for transformers only", fix="give a ViT, such as --model L/16")
    tokens = config.grid[0] * config.grid[1] + config.prefix_tokens
    kept = ACTIVATION_BYTES * DEVICE_BATCH * tokens * config.dim * config.depth
    gathered = 0 if degree == 1 else 2 * 4 * parameters / config.depth
    return (STATE_BYTES * parameters / degree + gathered + kept) / 1e9


def parse_count(words: str) -> float:
    """`300M`, `1.28M`, `14k`, `5000`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMB]?)", words.replace(",", "").strip())
    if match is None or not float(match[1]):
        raise ConfigError(f"--images {words!r} is no number of pictures", fix="write 1.28M, 300M or 50000")
    return float(match[1]) * UNITS[match[2]]


def parse_hardware(words: str) -> tuple[int, Device]:
    """`8xA100`: how many, and of what."""
    match = re.fullmatch(r"(?:(\d+)\s*x\s*)?([A-Za-z]\w*)", words.strip())
    name = match[2] if match else words
    if match is None or name not in DEVICES or int(match[1] or 1) < 1:
        near = did_you_mean(name, DEVICES)
        raise ConfigError(f"--hardware {words!r} is not known", fix=f"write 8xA100; {near}")
    return int(match[1] or 1), DEVICES[name]
