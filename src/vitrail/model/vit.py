"""The Vision Transformer (Dosovitskiy et al., 2021), in the order of its equations.

    z_0  = [x_class; x_p^1 E; ...; x_p^N E] + E_pos        embed      (1)
    z'_l = MSA(LN(z_{l-1})) + z_{l-1}                      Block      (2)
    z_l  = MLP(LN(z'_l)) + z'_l                            Block      (3)
    y    = LN(z_L^0)                                       features   (4)

B batch, N tokens, D width, H heads, d width per head. Tokens are ordered class token, distillation token,
registers, patches.
`record` is offered every intermediate by name (see trace.py); by default nobody keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Pair, ViTConfig
from vitrail.errors import ConfigError
from vitrail.model.heads import POOLS, build_head
from vitrail.model.init import initialise
from vitrail.model.patches import PATCHES, check_images, cut
from vitrail.model.positions import SCHEMES, Layout
from vitrail.model.shared import DropPath
from vitrail.model.trace import SILENT, Silent, Trace


class Attention(nn.Module):
    """Multi-head self-attention: softmax(q k^T / sqrt(d)) v in each head, then one projection of all heads."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        inner = config.heads * config.dim_head
        self.heads, self.dim_head, self.scale = config.heads, config.dim_head, config.dim_head**-0.5
        self.qkv = nn.Linear(config.dim, 3 * inner, bias=config.qkv_bias)
        self.q_norm = nn.LayerNorm(config.dim_head, eps=config.norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(config.dim_head, eps=config.norm_eps) if config.qk_norm else nn.Identity()
        self.positions = SCHEMES[config.positions][1](config)
        self.attn_drop = config.attention_dropout
        self.proj = nn.Linear(inner, config.dim)
        self.proj_drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, layout: Layout, read: int | None = None, record: Silent = SILENT) -> Tensor:
        """Tokens (B N D) to tokens (B N D), or to the first `read` of them, at the cost of those alone."""
        q, k, v = self.queries_keys_values(x, layout, read)  # B H N d
        drop = self.attn_drop if self.training else 0.0
        if record.keeps or (products_win(q, k) and not drop):
            mixed = record("attention", self.weights(q, k, layout, record)) @ record("v", v)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self._bias(q, k, layout), dropout_p=drop)
        heads = record("heads", mixed).transpose(1, 2).flatten(2)  # B N Hd
        return self.proj_drop(self.proj(heads))

    def queries_keys_values(self, x: Tensor, layout: Layout, read: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B N D) to q, k, v (B H N d); queries of the first `read` tokens only, where not all are needed."""
        if read is None:
            q, k, v = self._split(self.qkv(x), 3)
        else:
            inner = self.heads * self.dim_head
            weight, bias = self.qkv.weight, self.qkv.bias
            (q,) = self._split(F.linear(x[:, :read], weight[:inner], None if bias is None else bias[:inner]), 1)
            k, v = self._split(F.linear(x, weight[inner:], None if bias is None else bias[inner:]), 2)
        q, k = self.positions.turn(self.q_norm(q), self.k_norm(k), layout)
        return q, k, v

    def weights(self, q: Tensor, k: Tensor, layout: Layout, record: Silent = SILENT) -> Tensor:
        """How much each query attends to each key (B H N N); every row sums to one."""
        scores = record("q", q) * self.scale @ record("k", k).transpose(-2, -1)
        bias = self._bias(q, k, layout)
        return record("scores", scores if bias is None else scores + bias).softmax(dim=-1)

    def _bias(self, q: Tensor, k: Tensor, layout: Layout) -> Tensor | None:
        bias = self.positions.bias(q, k.shape[2], layout)
        return None if bias is None else bias * self.scale

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """B N (parts H d) to `parts` tensors B H N d, without a copy."""
        return x.unflatten(-1, (parts, self.heads, self.dim_head)).permute(2, 0, 3, 1, 4).unbind(0)


class Mlp(nn.Module):
    """Two dense layers with a GELU between them."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.dim, config.mlp_dim)
        self.fc2 = nn.Linear(config.mlp_dim, config.dim)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, record: Silent = SILENT) -> Tensor:
        hidden = record("mlp_hidden", gelu(self.fc1(x)))
        return self.drop(self.fc2(self.drop(hidden)))


class LayerScale(nn.Module):
    """A learned factor for each coordinate of a branch, small at first (CaiT, DINOv2)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        assert config.layer_scale is not None
        self.start = config.layer_scale
        self.gamma = nn.Parameter(torch.empty(config.dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Block(nn.Module):
    """One layer of the encoder, norm first: equations 2 and 3."""

    def __init__(self, config: ViTConfig, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.attn = Attention(config)
        self.ls1 = nn.Identity() if config.layer_scale is None else LayerScale(config)
        self.norm2 = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.mlp = Mlp(config)
        self.ls2 = nn.Identity() if config.layer_scale is None else LayerScale(config)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, layout: Layout, read: int | None = None, record: Silent = SILENT) -> Tensor:
        """Tokens (B N D) to tokens (B N D), or to the first `read` of them."""
        x = add(x[:, :read], self.msa_branch(self.norm1(x), layout, read, record))
        return record("out", add(x, self.mlp_branch(self.norm2(x), record)))

    def msa_branch(self, x: Tensor, layout: Layout, read: int | None, record: Silent) -> Tensor:
        return record("msa", self.drop_path(self.ls1(self.attn(x, layout, read, record))))

    def mlp_branch(self, x: Tensor, record: Silent) -> Tensor:
        return record("mlp", self.drop_path(self.ls2(self.mlp(x, record))))

    def attention(self, x: Tensor, layout: Layout) -> Tensor:
        """The attention weights of this block for these tokens (B H N N)."""
        q, k, _ = self.attn.queries_keys_values(self.norm1(x), layout)
        return self.attn.weights(q, k, layout)


class PostNormBlock(Block):
    """The order of the original Transformer: the norm comes after the sum."""

    def forward(self, x: Tensor, layout: Layout, read: int | None = None, record: Silent = SILENT) -> Tensor:
        x = self.norm1(add(x[:, :read], self.msa_branch(x, layout, read, record)))
        return record("out", self.norm2(add(x, self.mlp_branch(x, record))))

    def attention(self, x: Tensor, layout: Layout) -> Tensor:
        q, k, _ = self.attn.queries_keys_values(x, layout)
        return self.attn.weights(q, k, layout)


BLOCKS: dict[str, type[Block]] = {"pre": Block, "post": PostNormBlock}


class ViT(nn.Module):
    """The whole model. The words are vit-pytorch's; `parts` are the other fields of `ViTConfig`.

    Parameter names are timm's, so a state dict opens there as it is.
    """

    def __init__(
        self,
        *,
        image_size: int | Pair,
        patch_size: int | Pair,
        num_classes: int,
        dim: int,
        depth: int,
        heads: int,
        mlp_dim: int,
        **parts: Any,
    ) -> None:
        super().__init__()
        sizes = {"image_size": image_size, "patch_size": patch_size, "num_classes": num_classes}
        widths = {"dim": dim, "depth": depth, "heads": heads, "mlp_dim": mlp_dim}
        self.config = config = ViTConfig.from_dict({**sizes, **widths, **parts})
        self.patch_embed = PATCHES[config.patches](config)
        self.cls_token = nn.Parameter(torch.empty(1, 1, config.dim)) if config.class_token else None
        self.dist_token = nn.Parameter(torch.empty(1, 1, config.dim)) if config.distill_token else None
        self.reg_token = nn.Parameter(torch.empty(1, config.registers, config.dim)) if config.registers else None
        self.positions = SCHEMES[config.positions][0](config)
        table = self.positions.table_shape()
        self.pos_embed = None if table is None else nn.Parameter(torch.empty(table))
        self.pos_drop = nn.Dropout(config.emb_dropout)
        rates = [config.drop_path * i / max(1, config.depth - 1) for i in range(config.depth)]
        self.blocks = nn.ModuleList(BLOCKS[config.norm](config, rate) for rate in rates)
        self.norm = self._final_norm("tokens")
        self.attn_pool = POOLS[config.pool](config)
        self.fc_norm = self._final_norm("pooled")
        self.pre_logits, self.head = build_head(config)
        initialise(self)

    @classmethod
    def from_config(cls, config: ViTConfig) -> ViT:
        return cls(**config.to_dict())

    def _final_norm(self, place: str) -> nn.Module:
        here = self.config.final_norm == place
        return nn.LayerNorm(self.config.dim, eps=self.config.norm_eps) if here else nn.Identity()

    def forward(self, images: Tensor, record: Silent = SILENT) -> Tensor:
        """Images (B C height width) to logits (B classes)."""
        return record("logits", self.classify(self.features(images, record)))

    def features(self, images: Tensor, record: Silent = SILENT) -> Tensor:
        """Images to one vector each, pooled and normalised, before the head (B D)."""
        if record.keeps or not works_in_groups(images):
            return self._features(images, record)
        check_images(images, self.config)
        return torch.cat([self._features(group, record) for group in images.split(images_at_once(images, self.config))])

    def _features(self, images: Tensor, record: Silent) -> Tensor:
        return record("features", self.pool(*self.embed(images, record), record))

    def some_features(self, images: Tensor, share: float) -> Tensor:
        """Features from a random share of each image's patches: patch dropout, at the cost of those patches alone."""
        return self.pool(*keep_some(*self.embed(images), share))

    def pool(self, tokens: Tensor, layout: Layout, record: Silent = SILENT) -> Tensor:
        """Embedded tokens (B N D) to features: the blocks, the norm, and the pooled output of each layer read (B D)."""
        layers = self.config.read_layers or (len(self.blocks),)
        # A trace shows every token; otherwise the last block computes only what pooling will read.
        read = None if record.keeps else self.attn_pool.reads
        encoded = self.encode_layers(tokens, layout, layers, read, record)
        pooled = [self.fc_norm(self.attn_pool(layer)) for layer in encoded]
        return pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=1)

    def reading(self, encoded: Tensor) -> Tensor:
        """How much of each encoded token (B N D) is in the pooled vector (B N); every row sums to one."""
        return self.attn_pool.reading(encoded)

    def classify(self, features: Tensor) -> Tensor:
        """Features (B D) to logits (B classes)."""
        return self.head(self.pre_logits(features))

    def embed(
        self, images: Tensor, record: Silent = SILENT, change: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Layout]:
        """Equation 1: cut, project, prepend the class token and registers, add positions (B N D).

        `change` is given the patch embeddings (B N D) before they know their places: where a patch is masked.
        """
        layout = Layout(check_images(images, self.config), self.config.prefix_tokens)
        if record.keeps:
            record("patches", cut(images, self.config.patch_size))
        patches = record("embeddings", self.patch_embed(images))
        patches = patches if change is None else change(patches)
        tokens_in_front = (self.cls_token, self.dist_token, self.reg_token)
        prefix = [token.expand(patches.shape[0], -1, -1) for token in tokens_in_front if token is not None]
        sequence = record("sequence", torch.cat([*prefix, patches], dim=1))
        tokens = self.pos_drop(self.positions(sequence, self.pos_embed, layout.grid))
        return record("tokens", tokens), layout

    def encode(self, tokens: Tensor, layout: Layout, read: int | None = None, record: Silent = SILENT) -> Tensor:
        """All blocks and the final norm: tokens (B N D) to tokens, or to the first `read` of them."""
        return next(self.encode_layers(tokens, layout, (len(self.blocks),), read, record))

    def encode_layers(
        self, tokens: Tensor, layout: Layout, layers: Sequence[int], read: int | None = None, record: Silent = SILENT
    ) -> Iterator[Tensor]:
        """The normalised output of these blocks, counted from 1; of the last of them the first `read` tokens."""
        for i, block in enumerate(self.blocks, start=1):
            tokens = block(tokens, layout, read if i == len(self.blocks) else None, record.inside(f"block.{i - 1}"))
            if i in layers:
                normed = self.norm(tokens)
                yield record("encoded", normed) if i == len(self.blocks) else normed

    def trace(self, images: Tensor) -> Trace:
        """Every named intermediate of a forward pass: patches, tokens, block[i].attention, ..., logits."""
        trace = Trace()
        self(images, trace)
        return trace

    def attention(self, images: Tensor, layers: Iterable[int] | None = None) -> list[Tensor]:
        """The attention weights of the layers asked for (B H N N each, in the order asked); None: of all."""
        wanted = list(range(len(self.blocks)) if layers is None else layers)
        found = dict(self.iter_attention(images, wanted))
        return [found[layer % len(self.blocks)] for layer in wanted]

    def iter_attention(self, images: Tensor, layers: Iterable[int]) -> Iterator[tuple[int, Tensor]]:
        """The same one layer at a time, from the first to the last, holding no other layer's weights."""
        depth = len(self.blocks)
        for layer in (layers := list(layers)):
            if not -depth <= layer < depth:
                raise ConfigError(f"there is no layer {layer}", fix=f"layers are 0 to {depth - 1}, or -1 for the last")
        wanted = {layer % depth for layer in layers}
        tokens, layout = self.embed(images)
        for i, block in enumerate(self.blocks):
            if i in wanted:
                yield i, cast(Block, block).attention(tokens, layout)
            if i >= max(wanted, default=-1):
                return
            tokens = block(tokens, layout)


def keep_some(tokens: Tensor, layout: Layout, share: float) -> tuple[Tensor, Layout]:
    """All prefix tokens and a random share of the patches, chosen for each image apart (B N D -> B K D)."""
    patches = tokens.shape[1] - layout.prefix
    scores = torch.rand(tokens.shape[0], patches, device=tokens.device)
    return keep(tokens, layout, scores.topk(max(1, round(patches * share)), dim=1, sorted=False).indices)


def keep(tokens: Tensor, layout: Layout, kept: Tensor) -> tuple[Tensor, Layout]:
    """All prefix tokens and the patches that `kept` (B K) names for each image (B N D -> B K D)."""
    chosen = tokens[:, layout.prefix :].gather(1, kept[..., None].expand(-1, -1, tokens.shape[2]))
    return torch.cat([tokens[:, : layout.prefix], chosen], dim=1), layout._replace(kept=kept)


def products_win(q: Tensor, k: Tensor) -> bool:
    """Whether attention learns faster as two products: on a processor, where there are few tokens (LOG.md).

    torch's fused one never holds the weights, which pays with many; its backward pass is slow, in 16 bits very slow.
    """
    few = 256 if q.dtype == torch.bfloat16 else 128
    return q.requires_grad and q.device.type == "cpu" and k.shape[2] <= few and not torch.compiler.is_compiling()


def works_in_groups(images: Tensor) -> bool:
    """A processor's cache holds a few images at a time; a GPU, a graph and gradients want the whole batch."""
    return images.device.type == "cpu" and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def images_at_once(images: Tensor, config: ViTConfig) -> int:
    """As many as keep the widest activation, the MLP's hidden layer, within 10 MiB: 17 for Ti/16, 8 for S, 4 for B.

    Peak memory then no longer grows with the batch, and nothing is lost in speed (LOG.md, 2026-11-16).
    """
    patches = images.shape[2] * images.shape[3] // (config.patch_size[0] * config.patch_size[1])
    return max(4, 10 * 2**20 // (4 * config.mlp_dim * max(1, patches)))


def add(x: Tensor, branch: Tensor) -> Tensor:
    """x + branch. Without gradients the sum takes the branch's memory: a branch is always fresh, x may be yours."""
    if torch.is_grad_enabled() or branch.dtype != x.dtype:
        return x + branch
    return branch.add_(x)


def gelu(x: Tensor) -> Tensor:
    """Exact (erf) GELU of a fresh tensor, in its own memory where no gradient needs the input."""
    return F.gelu(x) if torch.is_grad_enabled() else torch.ops.aten.gelu_(x)
