"""Views of a picture for methods that compare them: random parts, flipped, in other colours.

They are cut from the batch as it comes, on whatever device it is. B batch, C channels, H rows, W columns.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Pair
from vitrail.methods.draws import Draws

RATIO = (3 / 4, 4 / 3)  # columns over rows of a part
BRIGHTNESS, CONTRAST, SATURATION = 0.4, 0.4, 0.2  # of the paper's jitter; each factor is 1 - this to 1 + this
JITTERED, GREY = 0.8, 0.2  # probabilities
LUMA = (0.299, 0.587, 0.114)


def view(images: Tensor, size: Pair, scale: tuple[float, float], flip: bool, draws: Draws, name: str) -> Tensor:
    """One random view (B C size) of pixels (B C H W, 0 to 1); `scale`: the least and the largest share of the area."""
    chance = draws.uniform(5, f"part {name}")
    pixels = cut_out(images, size, scale, chance)
    if flip:
        pixels = torch.where((chance[:, 4] < 0.5).view(-1, 1, 1, 1), pixels.flip(-1), pixels)
    return recolour(pixels, draws.uniform(5, f"colour {name}"))


def cut_out(images: Tensor, size: Pair, scale: tuple[float, float], chance: Tensor) -> Tensor:
    """A part of each image (B C H W) of random area and shape, resized; `chance` is B x 4: area, ratio, top, left."""
    area = scale[0] + (scale[1] - scale[0]) * chance[:, 0]
    ratio = RATIO[0] * (RATIO[1] / RATIO[0]) ** chance[:, 1]
    rows, columns = (area / ratio).sqrt().clamp(max=1), (area * ratio).sqrt().clamp(max=1)  # shares of H and W
    down, right = (1 - rows) * (2 * chance[:, 2] - 1), (1 - columns) * (2 * chance[:, 3] - 1)  # of the centre, -1 to 1
    nothing = torch.zeros_like(rows)
    where = torch.stack([columns, nothing, right, nothing, rows, down], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(where, [*images.shape[:2], *size], align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def recolour(pixels: Tensor, chance: Tensor) -> Tensor:
    """Brightness, contrast, and for RGB saturation and sometimes no colour at all; `chance` is B x 5."""

    def factor(column: int, most: float) -> Tensor:
        moved = 1 + most * (2 * chance[:, column] - 1)
        return torch.where(chance[:, 4] < JITTERED, moved, 1.0).view(-1, 1, 1, 1)

    bright = pixels * factor(0, BRIGHTNESS)
    mean = grey(bright).mean(dim=(2, 3), keepdim=True)
    pixels = mean + (bright - mean) * factor(1, CONTRAST)
    if pixels.shape[1] == 3:
        plain = grey(pixels)
        kept = torch.where((chance[:, 3] < GREY).view(-1, 1, 1, 1), 0.0, factor(2, SATURATION))
        pixels = plain + (pixels - plain) * kept
    return pixels.clamp(0, 1)


def grey(pixels: Tensor) -> Tensor:
    """B 1 H W: luma of three channels, the mean of others."""
    if pixels.shape[1] != 3:
        return pixels.mean(dim=1, keepdim=True)
    return (pixels * torch.tensor(LUMA, device=pixels.device).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
