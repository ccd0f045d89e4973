"""What is known of the data before training: enough to choose settings by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from vitrail.data.examples import Examples
from vitrail.data.measure import detect_channels, measure_mean_std
from vitrail.errors import ImageError
from vitrail.train.recipe import Facts

SAMPLE = 64
PAPER_MEAN = PAPER_STD = (0.5, 0.5, 0.5)  # pixels from -1 to 1, as in the paper's code


def gather(examples: Examples, device: str) -> Facts:
    """Facts of the training split."""
    channels = detect_channels(examples)
    mean, std = (PAPER_MEAN, PAPER_STD) if channels == 3 else measure_mean_std(examples, channels)
    train = examples.split("train")
    return Facts(
        data=examples.name,
        pictures=len(train),
        classes=examples.classes,
        channels=channels,
        size=typical_size(examples),
        mean=mean,
        std=std,
        multi_label=examples.multi_label,
        imbalance=imbalance(examples),
        device=device,
        bfloat16=fast_bfloat16(device),
    )


def typical_size(examples: Examples) -> tuple[int, int]:
    """The median rows and columns of some pictures."""
    train = examples.split("train")
    sizes = []
    for index in train[:: max(1, len(train) // SAMPLE)][:SAMPLE]:
        try:
            sizes.append(examples.pictures.read(int(index)).shape[:2])
        except ImageError:  # named later, when everything is read
            continue
    if not sizes:
        return 224, 224
    rows, columns = np.median(np.array(sizes), axis=0)
    return int(rows), int(columns)


def class_counts(examples: Examples, split: str = "train") -> np.ndarray:
    """Pictures a class."""
    targets = examples.targets[examples.split(split)]
    if examples.multi_label:
        return targets.sum(axis=0)
    counted = Counter(targets.tolist())
    return np.array([counted[k] for k in range(len(examples.classes))])


def imbalance(examples: Examples) -> float:
    counts = class_counts(examples)
    return 1.0 if not len(counts) else float(counts.max() / max(1, counts.min()))


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def fast_bfloat16(device: str) -> bool:
    """Whether the device has instructions for products of such numbers; without, they are many times slower."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    known = getattr(torch.cpu, "get_capabilities", dict)  # which torch 2.10 does not have
    found: Mapping[str, Any] = known() if device == "cpu" else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))
