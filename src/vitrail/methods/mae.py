"""MAE (He et al. 2021, arXiv:2111.06377): the encoder sees a quarter of the patches, a light decoder paints the rest.

B batch, N patches, K of them visible, M masked in the whole batch, P pixels of a patch times channels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Config, Preprocessing, ViTConfig
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws
from vitrail.methods.masked import Masked, linear
from vitrail.model import ViT
from vitrail.model.init import initialise
from vitrail.model.patches import cut
from vitrail.model.positions import Layout, sincos_2d
from vitrail.model.vit import Block, keep

DIM_HEAD = 32  # of the decoder, as in the paper: 16 heads of 512


@dataclass(frozen=True)
class MAESettings(Config):
    """The paper's, but for the decoder: its 8 blocks of 512 are made for encoders of 768 and more."""

    mask: float = 0.75
    decoder_depth: int = 4
    decoder_dim: int = 192
    normalise: bool = True  # each patch's pixels by their own mean and deviation, before they are compared

    def __post_init__(self) -> None:
        if self.decoder_depth < 1 or self.decoder_dim < DIM_HEAD or self.decoder_dim % DIM_HEAD:
            raise ConfigError(
                f"a decoder of {self.decoder_depth} blocks of width {self.decoder_dim} cannot be built",
                fix=f"use at least 1 block, and a width that is a multiple of {DIM_HEAD}",
            )


class MAE(Masked):
    """forward is three calls: encode what is visible, decode the whole, compare what was masked."""

    def __init__(self, model: ViT, settings: MAESettings, image: Preprocessing, seed: int) -> None:
        super().__init__(model, image, seed, settings.mask)
        self.normalise = settings.normalise
        self.decoder = Decoder(model.config, settings.decoder_depth, settings.decoder_dim, self.pixels)

    def predict(self, images: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        del draws
        visible = mask.int().argsort(dim=1, stable=True)[:, : -int(mask[0].sum())]  # B K: every picture has K
        tokens, layout = keep(*self.model.embed(images), visible)
        return self.decoder(self.model.encode(tokens, layout), layout)[mask]

    def targets(self, images: Tensor) -> Tensor:
        patches = cut(images, self.patch)  # B N P
        if not self.normalise:
            return patches
        mean, deviation = spread(patches)
        return (patches - mean) / deviation

    def compare(self, predicted: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(predicted.float(), targets)

    def paint(self, predicted: Tensor, patches: Tensor) -> Tensor:
        """A prediction in units of the patch's own spread would look like noise; it is put back on the true one."""
        if not self.normalise:
            return predicted
        mean, deviation = spread(patches)
        return predicted * deviation + mean


class Decoder(nn.Module):
    """Visible tokens to the pixels of all patches; masked ones start as one learned vector at their places."""

    def __init__(self, encoder: ViTConfig, depth: int, dim: int, pixels: int) -> None:
        super().__init__()
        config = ViTConfig(
            image_size=encoder.image_size,
            patch_size=encoder.patch_size,
            channels=encoder.channels,
            num_classes=0,
            dim=dim,
            depth=depth,
            heads=dim // DIM_HEAD,
            dim_head=DIM_HEAD,
            mlp_dim=4 * dim,
            positions="sincos-2d",
            norm_eps=encoder.norm_eps,
        )
        self.embed = linear(encoder.dim, dim)
        self.mask_token = nn.Parameter(torch.empty(1, 1, dim))
        nn.init.normal_(self.mask_token, std=0.02)
        self.blocks = nn.ModuleList(Block(config) for _ in range(depth))
        initialise(self.blocks)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.head = linear(dim, pixels)
        self.places: Tensor
        self.register_buffer("places", sincos_2d(config.grid, config.grid, dim), persistent=False)

    def forward(self, encoded: Tensor, layout: Layout) -> Tensor:
        """Encoded prefix tokens and visible patches (B prefix+K D) to pixels of every patch (B N P)."""
        assert layout.kept is not None
        prefix, visible = self.embed(encoded).split([layout.prefix, layout.kept.shape[1]], dim=1)
        patches = self.mask_token.to(visible.dtype).expand(len(visible), self.places.shape[1], -1)
        patches = patches.scatter(1, layout.kept[..., None].expand_as(visible), visible) + self.places
        tokens, layout = torch.cat([prefix, patches], dim=1), layout._replace(kept=None)
        for block in self.blocks:
            tokens = block(tokens, layout)
        return self.head(self.norm(tokens[:, layout.prefix :]))


def spread(patches: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the pixels of each patch (... 1)."""
    return patches.mean(dim=-1, keepdim=True), (patches.var(dim=-1, keepdim=True) + 1e-6).sqrt()
