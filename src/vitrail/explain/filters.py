"""The filters of the patch embedding, as in the paper's figure 7 (left): their principal components.

D width, P and Q patch height and width, C channels, K components.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from vitrail.model.vit import ViT

COMPONENTS = 28  # as many as the paper shows


@dataclass(frozen=True, eq=False)
class Filters:
    """Components (K P Q C), the largest first, and the share of the filters' variance that each explains."""

    values: NDArray[np.float32]
    variance: tuple[float, ...]


def why_no_filters(model: ViT) -> str | None:
    """Filters of a stem's features are no pictures."""
    if model.config.stem == "none":
        return None
    return (
        f"no embedding filters: a {model.config.stem} stem stands before the patches, so they see features, not pixels"
    )


def embedding_filters(model: ViT, count: int = COMPONENTS) -> Filters:
    """The first principal components of the D filters; each one's largest value is positive, for signs mean nothing."""
    assert why_no_filters(model) is None
    c = model.config
    (p, q), channels = c.patch_size, c.channels
    kernel = model.patch_embed.get_parameter("proj.weight").detach().double().cpu()
    if kernel.ndim == 4:  # a convolution holds channels first, a linear layer pixel by pixel
        kernel = kernel.permute(0, 2, 3, 1)
    flat = kernel.reshape(c.dim, p * q * channels)
    _, sizes, components = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    kept = components[:count]
    largest = kept.gather(1, kept.abs().argmax(dim=1, keepdim=True))
    shares = sizes.square() / sizes.square().sum().clamp_min(1e-300)
    drawn = (kept * largest.sign()).reshape(-1, p, q, channels)
    return Filters(drawn.float().numpy(), tuple(shares[:count].tolist()))
