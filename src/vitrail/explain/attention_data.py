"""The attention of all layers and heads, small enough for a page: coarser where it must be, and in bytes.

H heads, N tokens, P patches, n cells of a grid over the patches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair
from vitrail.explain.listener import Listener
from vitrail.model import ViT
from vitrail.model.patches import check_images


class AttentionData(NamedTuple):
    """Row 0 is what pooling reads, row 1 + c what cell c reads; head 0 is the mean of all."""

    grid: Pair
    shares: NDArray[np.uint8]  # layers x (1 + H) x (1 + n) x n: of 255 parts of the row's largest
    largest: NDArray[np.float32]  # layers x (1 + H) x (1 + n): that largest, as a share of all attention
    together: int  # patches a side that one cell stands for


def attention_data(model: ViT, images: Tensor, limit: int) -> AttentionData:
    """Of one picture (1 C height width), in at most `limit` bytes where a grid of one cell can have so few."""
    grid, config = check_images(images, model.config), model.config
    together = 1
    while (cells := _cells(grid, together)) != (1, 1) and _size(cells, config.depth, config.heads) > limit:
        together += 1
    into = _into_cells(grid, together).to(images)  # n P
    layers: list[tuple[NDArray[np.uint8], NDArray[np.float32]]] = []
    with torch.no_grad():
        reading = model.reading(model.encode(*model.embed(images)))  # a pass of its own: it is known only at the end
        front = config.prefix_tokens

        def hear(weights: Tensor) -> None:
            keys = weights[0, :, :, front:] @ into.T  # H N n
            asked = (into / into.sum(dim=1, keepdim=True)) @ keys[:, front:]  # H n n
            rows = torch.cat([(reading[0] @ keys)[:, None], asked], dim=1)  # H 1+n n
            layers.append(_as_bytes(torch.cat([rows.mean(dim=0, keepdim=True), rows])))

        model(images, Listener(attention=hear))
    shares, largest = (np.stack(part) for part in zip(*layers, strict=True))
    return AttentionData(cells, shares, largest, together)


def _cells(grid: Pair, together: int) -> Pair:
    return -(-grid[0] // together), -(-grid[1] // together)


def _size(cells: Pair, depth: int, heads: int) -> int:
    count = cells[0] * cells[1]
    return depth * (1 + heads) * (1 + count) * (count + 4)


def _into_cells(grid: Pair, together: int) -> Tensor:
    """Which patches (columns) are in which cell (rows): ones and zeros (n P)."""
    rows, columns = (torch.arange(side) // together for side in grid)
    cell = (rows[:, None] * _cells(grid, together)[1] + columns).flatten()
    return (torch.arange(int(cell.max()) + 1)[:, None] == cell).float()


def _as_bytes(rows: Tensor) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    largest = rows.amax(dim=-1)
    shares = (255 * rows / largest.clamp(min=1e-12)[..., None]).round()
    return shares.to(torch.uint8).cpu().numpy(), largest.float().cpu().numpy()
