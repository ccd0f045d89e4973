"""Token merging (ToMe, Bolya et al. 2023): in every block the patches most alike become one; later blocks are cheaper.

Patches are dealt into two hands, every other one; each of the first hand finds the most alike of the second, and the
`merge` most alike pairs become their mean, weighted by how many patches each stands for. Prefix tokens are left alone.
A token that stands for many is attended to as if it were many: the logarithm of its size is added to the scores.

B batch, N tokens, D width, H heads, d width per head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.model.positions import Layout
from vitrail.model.trace import SILENT, Silent
from vitrail.model.vit import Block, ViT


class MergingViT(ViT):
    """The same weights and the same parts; only the way through the blocks differs."""

    def encode_layers(
        self, tokens: Tensor, layout: Layout, layers: Sequence[int], read: int | None = None, record: Silent = SILENT
    ) -> Iterator[Tensor]:
        """The normalised output of these blocks. Where patches are averaged later, each counts for its size."""
        sizes = tokens.new_ones(*tokens.shape[:2], 1)  # B N 1: patches that each token stands for
        for i, block in enumerate(self.blocks, start=1):
            last = i == len(self.blocks)
            inside = record.inside(f"block.{i - 1}")
            count = merged_in(tokens.shape[1] - layout.prefix, self.config.merge)
            tokens, sizes = merge_and_run(
                cast(Block, block), tokens, sizes, layout, count, read if last else None, inside
            )
            if i in layers:
                normed = self.norm(tokens)
                if "mean" in self.config.pool:
                    normed = by_size(normed, sizes, layout.prefix)
                yield record("encoded", normed) if last else normed


def merged_in(patches: int, merge: int) -> int:
    """How many of so many patches are merged away in a block: never more than half of them."""
    return min(merge, patches // 2)


def merge_and_run(
    block: Block, x: Tensor, sizes: Tensor, layout: Layout, count: int, read: int | None, record: Silent
) -> tuple[Tensor, Tensor]:
    """One block: attention in proportion to the sizes, merging, MLP. The last one that is read alone merges nothing."""
    attn = block.attn
    q, k, v = attn.queries_keys_values(block.norm1(x), layout, read)  # B H N d
    bias = sizes.log().transpose(1, 2)[:, None]  # B 1 1 N
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(-1, 1, q.shape[2], -1))
    branch = attn.proj_drop(attn.proj(record("heads", mixed).transpose(1, 2).flatten(2)))
    x = x[:, :read] + record("msa", block.drop_path(block.ls1(branch)))
    if read is None and count:
        x, sizes = merge(x, sizes, k.mean(dim=1), layout.prefix, count)
    return record("out", x + block.mlp_branch(block.norm2(x), record)), sizes


def merge(x: Tensor, sizes: Tensor, alike: Tensor, prefix: int, count: int) -> tuple[Tensor, Tensor]:
    """Tokens (B N D) and sizes (B N 1) without the `count` patches that have gone into others; `alike` (B N d) says
    which are alike."""
    weighted = torch.cat([x * sizes, sizes], dim=-1)  # what is added up when two become one
    front, first, second = weighted[:, :prefix], weighted[:, prefix::2], weighted[:, prefix + 1 :: 2]
    one, other = (F.normalize(part, dim=-1) for part in (alike[:, prefix::2], alike[:, prefix + 1 :: 2]))
    likeness, partner = (one @ other.transpose(1, 2)).max(dim=-1)  # B first
    order = likeness.argsort(dim=-1, descending=True)
    gone, kept = order[:, :count], order[:, count:]
    goes_to = F.one_hot(partner.gather(1, gone), second.shape[1]).to(x.dtype)  # B count second
    second = second + goes_to.transpose(1, 2) @ _pick(first, gone)
    total = torch.cat([front, _pick(first, kept), second], dim=1)
    return total[..., :-1] / total[..., -1:], total[..., -1:]


def by_size(x: Tensor, sizes: Tensor, prefix: int) -> Tensor:
    """Patches scaled so that their plain mean is the mean of all that they stand for."""
    share = sizes[:, prefix:] / sizes[:, prefix:].mean(dim=1, keepdim=True)
    return torch.cat([x[:, :prefix], x[:, prefix:] * share], dim=1)


def _pick(x: Tensor, indices: Tensor) -> Tensor:
    """Rows of x (B N D) by their places (B K)."""
    return x.gather(1, indices[..., None].expand(-1, -1, x.shape[2]))
