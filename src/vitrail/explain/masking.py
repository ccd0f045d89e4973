"""Pictures of which a part is not shown. B batch, C channels, M masks on a grid of rows x columns."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Pair
from vitrail.model import Model, ViT
from vitrail.model.patches import check_images

BATCH = 64  # pictures that the model answers at once
BLUR = 4  # cells of the grid that melt into one colour


def grid_of(model: Model, images: Tensor) -> Pair:
    """Rows and columns of patches; of a ResNet, of its last feature maps."""
    if isinstance(model, ViT):
        return check_images(images, model.config)
    with torch.no_grad():
        rows, columns = model.maps(images[:1]).shape[2:]
    return rows, columns


def without_detail(images: Tensor, grid: Pair) -> Tensor:
    """The pictures (B C height width) so blurred that nothing of the size of a few cells can be told."""
    rows, columns = (max(1, side // BLUR) for side in grid)
    coarse = F.adaptive_avg_pool2d(images, (rows, columns))
    return F.interpolate(coarse, size=images.shape[2:], mode="bilinear", align_corners=False)


def answers(model: Callable[[Tensor], Tensor], image: Tensor, instead: Tensor, shown: Tensor) -> Tensor:
    """Logits (M K) of one picture (C height width), which where `shown` (M rows columns) is 0 is `instead`."""
    found = []
    with torch.inference_mode():
        for part in shown.to(image).split(BATCH):
            mask = F.interpolate(part[:, None], size=image.shape[1:], mode="nearest")
            found.append(model(torch.lerp(instead, image, mask)))
    return torch.cat(found)
