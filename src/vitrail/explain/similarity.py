"""How alike things are: position embeddings to each other (the paper's figure 7, middle), and tokens to each other.

B batch, N patches, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair
from vitrail.model.vit import ViT

OUTLIER = 3.0  # times the median norm of a picture's patches: what registers are there to take over

_INSIDE = "no position embedding to compare: {} positions act inside attention"
_NONE = {
    "none": "no position embedding to compare: this model has none",
    "relative": _INSIDE.format("relative"),
    "rotary": _INSIDE.format("rotary"),
}


# ---- positions ----------------------------------------------------------------------------------------------------


class PositionShape(NamedTuple):
    """Mean cosine similarity of pairs of places; None where the grid has no such pair.

    `neighbours` touch; `far` are at least half as far apart as the two farthest places; `elsewhere` share neither row
    nor column.
    """

    neighbours: float | None
    far: float | None
    same_row: float | None
    same_column: float | None
    elsewhere: float | None


@dataclass(frozen=True, eq=False)
class Positions:
    """Cosine similarity of each patch's position embedding to every other (N N), on a grid of (rows, columns)."""

    scheme: str
    grid: Pair
    similarity: NDArray[np.float32]

    @property
    def shape(self) -> PositionShape:
        return position_shape(self.similarity, self.grid)

    @property
    def by_steps(self) -> tuple[float, ...]:
        """Mean cosine similarity of places 1, 2, ... steps apart in a row or a column."""
        down, right = _steps(self.grid)
        along = np.where((down == 0) | (right == 0), down + right, 0)
        return tuple(float(self.similarity[along == n].mean(dtype=np.float64)) for n in range(1, max(self.grid)))


def why_no_positions(model: ViT) -> str | None:
    return _NONE.get(model.config.positions)


def position_similarity(model: ViT) -> Positions:
    """Of what is added to the patches, learned or by formula, on the grid that the model was trained on."""
    config = model.config
    where = model.positions.embedding(model.pos_embed, config.grid)
    assert where is not None
    patches = where[0, -config.grid[0] * config.grid[1] :].detach().float().cpu()  # N D
    units = F.normalize(patches, dim=-1)
    return Positions(config.positions, config.grid, (units @ units.T).numpy())


def position_shape(similarity: NDArray[np.float32], grid: Pair) -> PositionShape:
    """The paper's finding as numbers: near places are alike, and so are those of a row or column."""
    down, right = _steps(grid)
    apart = np.hypot(down, right)

    def mean(pairs: NDArray[np.bool_]) -> float | None:
        return float(similarity[pairs].mean(dtype=np.float64)) if pairs.any() else None

    return PositionShape(
        neighbours=mean(down + right == 1),
        far=mean((apart >= apart.max() / 2) & (apart > 0)),
        same_row=mean((down == 0) & (right > 0)),
        same_column=mean((right == 0) & (down > 0)),
        elsewhere=mean((down > 0) & (right > 0)),
    )


def _steps(grid: Pair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From each place to every other, how many rows down or up (N N) and how many columns to the side (N N)."""
    row, column = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    return abs(row[:, None] - row), abs(column[:, None] - column)


# ---- tokens -------------------------------------------------------------------------------------------------------


def token_similarity(patches: Tensor) -> Tensor:
    """Mean cosine similarity of two different patches of a picture (B N D -> B); not a number where there is one."""
    units, count = F.normalize(patches, dim=-1), patches.shape[1]
    alone = units.square().sum(dim=(1, 2))
    together = units.sum(dim=1).square().sum(dim=-1)  # of all pairs, in time and memory that grow with N only
    return (together - alone) / (count * (count - 1)) if count > 1 else torch.full_like(alone, torch.nan)


def norm_outliers(norms: Tensor) -> Tensor:
    """Of norms (B N), the share of patches whose norm is more than `OUTLIER` times the median of their picture (B)."""
    return (norms > OUTLIER * norms.median(dim=1, keepdim=True).values).float().mean(dim=1)
