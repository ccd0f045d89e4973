"""How far and how widely each head looks: the paper's mean attention distance (its figure 7), and entropy.

B batch, H heads, T tokens (those in front, then N patches).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vitrail.config import Pair


def patch_distances(grid: Pair, patch_size: Pair) -> Tensor:
    """From the middle of each patch to the middle of every patch, in pixels (N N)."""
    down, right = (torch.arange(count) * float(side) for count, side in zip(grid, patch_size, strict=True))
    places = torch.cartesian_prod(down, right)  # N 2
    return torch.linalg.vector_norm(places[:, None] - places, dim=-1)


def attention_distance(attention: Tensor, distances: Tensor) -> Tensor:
    """Of attention (B H T T), the mean distance in pixels from a patch to what it looks at (B H).

    The class token and registers are left out, as in the paper: what a patch gives to the other patches is taken as
    the whole, so that the figure is a true mean and does not shrink where much attention goes to those tokens.
    """
    patches = len(distances)
    among = attention[..., -patches:, -patches:]
    weight = among.sum(dim=-1).clamp_min(torch.finfo(among.dtype).tiny)
    return ((among * distances.to(among)).sum(dim=-1) / weight).mean(dim=-1)


def attention_entropy(attention: Tensor) -> Tensor:
    """Of attention (B H T T), the mean entropy of a token's weights in bits (B H): 0 for one token, log2 T for all."""
    return torch.special.entr(attention).sum(dim=-1).mean(dim=-1) / math.log(2)


def attention_to_front(attention: Tensor, prefix: int) -> Tensor:
    """Of attention (B H T T), the share that patches give to the `prefix` tokens in front of them (B H)."""
    return attention[..., prefix:, :prefix].sum(dim=-1).mean(dim=-1)
