"""Where a patch is. Self-attention does not know the order of its tokens, so each scheme here tells it.

A scheme acts in one of two places: it is *added* to the tokens before the first block (learned, sin-cos), or it acts
*inside* attention, on queries and keys (rotary) or on the scores (relative). A new scheme is one class and one row
of `SCHEMES`.

At another image size learned tables are interpolated in two dimensions, and formulas are evaluated at the patch's
place in the grid the model was trained on. A patch keeps its place in the picture, whatever the number of patches.

B batch, N tokens, D width, H heads, d width per head, R x C rows and columns of patches.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Pair, ViTConfig


class Layout(NamedTuple):
    """What the tokens of a sequence are: prefix tokens, then patches of this grid, or those kept of them (B K)."""

    grid: Pair
    prefix: int
    kept: Tensor | None = None


# ---- added to the tokens ------------------------------------------------------------------------------------------


class NothingAdded:
    """The scheme 'none', and of the schemes that act inside attention."""

    def __init__(self, config: ViTConfig) -> None:
        self.config = config

    def table_shape(self) -> tuple[int, ...] | None:
        """Of the learned parameter `pos_embed`, which the model owns; None: nothing is learned."""
        return None

    def embedding(self, table: Tensor | None, grid: Pair) -> Tensor | None:
        """What to add at this grid (1 M D): for all tokens, or, if M is shorter, for the patches."""
        del table, grid
        return None

    def __call__(self, tokens: Tensor, table: Tensor | None, grid: Pair) -> Tensor:
        """Tokens (B N D) that know where they are (B N D)."""
        where = self.embedding(table, grid)
        if where is None:
            return tokens
        prefix = tokens.shape[1] - where.shape[1]
        return tokens + F.pad(where.to(tokens), (0, 0, prefix, 0))


class Learned(NothingAdded):
    """The paper's 1-D scheme: one learned vector a token, the class token and registers included."""

    def prefix(self) -> int:
        return self.config.prefix_tokens

    def table_shape(self) -> tuple[int, ...]:
        rows, columns = self.config.grid
        return 1, self.prefix() + rows * columns, self.config.dim

    def embedding(self, table: Tensor | None, grid: Pair) -> Tensor:
        assert table is not None
        return resize_positions(table, self.config.grid, grid)


class LearnedPatches(Learned):
    """One learned vector a patch; prefix tokens have no place (DINOv2 with registers)."""

    def prefix(self) -> int:
        return 0


class Learned2d(NothingAdded):
    """The paper's 2-D scheme: a learned vector of D/2 for the row beside one for the column. The table: R + C rows."""

    def table_shape(self) -> tuple[int, ...]:
        return 1, sum(self.config.grid), self.config.dim // 2

    def embedding(self, table: Tensor | None, grid: Pair) -> Tensor:
        assert table is not None
        old_rows, old_columns = self.config.grid
        by_row, by_column = table.split([old_rows, old_columns], dim=1)
        by_row = resize_grid(by_row, (old_rows, 1), (grid[0], 1))  # 1 R D/2
        by_column = resize_grid(by_column, (1, old_columns), (1, grid[1]))  # 1 C D/2
        rows = by_row.repeat_interleave(grid[1], dim=1)
        return torch.cat([rows, by_column.repeat(1, grid[0], 1)], dim=2)  # 1 RC D


class SinCos1d(NothingAdded):
    """'Attention is all you need': sin and cos of the patch's index, at wavelengths from 2 pi to 10000 * 2 pi."""

    def embedding(self, table: Tensor | None, grid: Pair) -> Tensor:
        del table
        return sincos_1d(grid, self.config.counted_grid, self.config.dim)


class SinCos2d(NothingAdded):
    """MAE's and big_vision's: sin and cos of the column in the first half of the width, of the row in the second."""

    def embedding(self, table: Tensor | None, grid: Pair) -> Tensor:
        del table
        return sincos_2d(grid, self.config.counted_grid, self.config.dim)


# ---- inside attention ---------------------------------------------------------------------------------------------


class NothingInside(nn.Module):
    """Attention without positions of its own."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.grid = config.counted_grid

    def turn(self, q: Tensor, k: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Queries and keys (B H N d), as they meet in the scores. Queries may be the first few tokens only."""
        del layout
        return q, k

    def bias(self, q: Tensor, keys: int, layout: Layout) -> Tensor | None:
        """What is added to the scores before scaling (B H N keys)."""
        del q, keys, layout
        return None


class Rotary(NothingInside):
    """Axial rotary positions: pairs of q and k are turned by angles that grow with the row and with the column.

    The score of two patches then depends on content and offset only. Prefix tokens are not turned.
    """

    def turn(self, q: Tensor, k: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        angles = rotary_angles(layout.grid, self.grid, q.shape[-1]).to(q.device)  # N d/2
        if layout.kept is not None:
            angles = angles[layout.kept].unsqueeze(1)  # B 1 K d/2
        return _rotate(q, angles, layout.prefix), _rotate(k, angles, layout.prefix)


class Relative(NothingInside):
    """The paper's relative scheme (appendix D.4): queries also attend to a learned vector for the offset to each key.

    One table a block, shared by its heads; prefix tokens have no offset and get no bias.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        rows, columns = config.grid
        self.table = nn.Parameter(torch.empty(1, (2 * rows - 1) * (2 * columns - 1), config.dim_head))

    def bias(self, q: Tensor, keys: int, layout: Layout) -> Tensor:
        content = q[:, :, layout.prefix :] @ self.offsets(layout.grid).transpose(-2, -1)  # B H N offsets
        index = offset_index(layout.grid).to(q.device)  # N N
        if layout.kept is not None:
            index = index[layout.kept.unsqueeze(2), layout.kept.unsqueeze(1)].unsqueeze(1)  # B 1 K K
        picked = content.gather(-1, index[..., : content.shape[2], :].expand(*content.shape[:3], -1))
        return F.pad(picked, (keys - picked.shape[-1], 0, q.shape[2] - picked.shape[2], 0))

    def offsets(self, grid: Pair) -> Tensor:
        """The learned vector of each offset at this grid (offsets d)."""
        (rows, columns), (new_rows, new_columns) = self.grid, grid
        old, new = (2 * rows - 1, 2 * columns - 1), (2 * new_rows - 1, 2 * new_columns - 1)
        return resize_grid(self.table, old, new)[0]


SCHEMES: dict[str, tuple[type[NothingAdded], type[NothingInside]]] = {
    "none": (NothingAdded, NothingInside),
    "learned": (Learned, NothingInside),
    "learned-patches": (LearnedPatches, NothingInside),
    "learned-2d": (Learned2d, NothingInside),
    "sincos-1d": (SinCos1d, NothingInside),
    "sincos-2d": (SinCos2d, NothingInside),
    "relative": (NothingAdded, Relative),
    "rotary": (NothingAdded, Rotary),
}


# ---- formulas -----------------------------------------------------------------------------------------------------


def resize_grid(table: Tensor, old: Pair, new: Pair) -> Tensor:
    """A table of vectors on one grid (1 N D), bicubically interpolated to another (1 N' D)."""
    if old == new:
        return table
    picture = table.float().reshape(1, *old, -1).permute(0, 3, 1, 2)  # 1 D R C
    resized = F.interpolate(picture, size=new, mode="bicubic", antialias=True)
    return resized.permute(0, 2, 3, 1).flatten(1, 2).to(table.dtype)


def resize_positions(table: Tensor, old: Pair, new: Pair) -> Tensor:
    """Position embeddings moved to a new grid; those of prefix tokens stay as they are."""
    prefix = table.shape[1] - old[0] * old[1]
    return torch.cat([table[:, :prefix], resize_grid(table[:, prefix:], old, new)], dim=1) if old != new else table


def places(count: int, trained: int) -> Tensor:
    """Where `count` patches lie, in units of the `trained` ones: 0, 1, 2 ... if they are the same."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) * (trained / count) - 0.5


def sincos_1d(grid: Pair, trained: Pair, dim: int) -> Tensor:
    rows, columns = places(grid[0], trained[0]), places(grid[1], trained[1])
    index = (rows[:, None] * trained[1] + columns).flatten()
    angles = index[:, None] * _frequencies(dim // 2, 10_000)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()[None]  # sin, cos, sin, cos, ...


def sincos_2d(grid: Pair, trained: Pair, dim: int) -> Tensor:
    frequencies = _frequencies(dim // 4, 10_000)
    columns = (places(grid[1], trained[1])[:, None] * frequencies).repeat(grid[0], 1)
    rows = (places(grid[0], trained[0])[:, None] * frequencies).repeat_interleave(grid[1], dim=0)
    return torch.cat([columns.sin(), columns.cos(), rows.sin(), rows.cos()], dim=1).float()[None]


def rotary_angles(grid: Pair, trained: Pair, dim_head: int) -> Tensor:
    """An angle for each patch and pair of coordinates (N d/2): by row in the first half, by column in the second.

    Base 100 as in RoPE for ViT (Heo et al. 2024): grids are short, so the slowest wave need not be 10000 patches long.
    """
    frequencies = _frequencies(dim_head // 4, 100)
    rows = (places(grid[0], trained[0])[:, None] * frequencies).repeat_interleave(grid[1], dim=0)
    columns = (places(grid[1], trained[1])[:, None] * frequencies).repeat(grid[0], 1)
    return torch.cat([rows, columns], dim=1).float()


def offset_index(grid: Pair) -> Tensor:
    """For each pair of patches the row of the offset table: (R-1 + row difference, C-1 + column difference)."""
    rows, columns = grid
    row = torch.arange(rows).repeat_interleave(columns)
    column = torch.arange(columns).repeat(rows)
    down, right = row[:, None] - row + rows - 1, column[:, None] - column + columns - 1
    return down * (2 * columns - 1) + right


def _frequencies(count: int, base: float) -> Tensor:
    return base ** (-torch.arange(count, dtype=torch.float64) / count)


def _rotate(x: Tensor, angles: Tensor, prefix: int) -> Tensor:
    """Coordinate i and i + d/2 of every patch form a pair that is turned by the patch's angle i."""
    if x.shape[2] <= prefix:
        return x
    first, second = x[:, :, prefix:].chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return torch.cat([x[:, :, :prefix], turned], dim=2)
