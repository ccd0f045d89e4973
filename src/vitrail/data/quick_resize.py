"""Resizing by torch, whose kernels for bytes are two to four times as fast as Pillow's where the processor has AVX2.

For training alone: values can differ from Pillow's by 2, and what a model is asked about must be the same everywhere.
Of more than four channels torch has no such kernel, and its general one is wrong where a picture is one pixel wide.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from vitrail.config import Pair
from vitrail.data.examples import Pixels
from vitrail.data.prepare import resize

_FAST = torch.backends.cpu.get_cpu_capability().startswith("AVX")
_SMOOTH = ("bicubic", "bilinear")
_CHANNELS = 4  # at most


def resize_quickly(pixels: Pixels, shape: Pair, method: str) -> Pixels:
    """To rows x columns (H x W x C), antialiased, as `prepare.resize` does."""
    if not _FAST or method not in _SMOOTH or pixels.shape[2] > _CHANNELS or pixels.shape[:2] == shape:
        return resize(pixels, shape, method)
    batch = torch.from_numpy(np.array(pixels))[None]  # a copy, because it may not be written to
    # Channels move last to first, and back, as a view of a batch: so torch knows their order in memory, and keeps it.
    # A batch made by torch: numpy gives an axis of one picture no step in memory, which torch takes for disorder.
    made = F.interpolate(batch.permute(0, 3, 1, 2), shape, mode=method, antialias=True)
    resized: Pixels = made[0].permute(1, 2, 0).numpy()
    return resized
