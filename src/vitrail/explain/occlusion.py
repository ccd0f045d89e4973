"""Occlusion (Zeiler and Fergus, 2014): cover a part of the picture, and see how far the class's logit falls.

Windows of two steps a side go over the grid in about eight steps a side; what a window covers is blurred away. A cell's
value is the mean fall over all windows that cover it. It asks nothing of a model but its answers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vitrail.config import Pair
from vitrail.explain.masking import answers, grid_of, without_detail
from vitrail.model import Model

STEPS = 8  # a side


def occlusion(model: Model, images: Tensor, targets: Tensor) -> Tensor:
    """Images (B C height width) and a class for each (B) to maps (B rows columns)."""
    grid = grid_of(model, images)
    covered = windows(grid).to(images)  # M rows columns
    cover = covered.flatten(1)
    everything = torch.ones(1, *grid).to(images)
    maps = []
    for image, target, blurred in zip(images, targets, without_detail(images, grid), strict=True):
        logits = answers(model, image, blurred, torch.cat([everything, 1 - covered]))[:, target]
        falls = logits[0] - logits[1:]  # M
        maps.append((falls @ cover / cover.sum(dim=0)).unflatten(0, grid))
    return torch.stack(maps)


def windows(grid: Pair) -> Tensor:
    """Every window on the grid, ones where it covers (M rows columns); every cell is covered as often as can be."""
    sides = [_intervals(side) for side in grid]
    return torch.stack([row[:, None] * column for row in sides[0] for column in sides[1]])


def _intervals(side: int) -> list[Tensor]:
    step = max(1, round(side / STEPS))
    cells = torch.arange(side)
    starts = range(-step, side, step)
    return [((cells >= start) & (cells < start + 2 * step)).float() for start in starts]
