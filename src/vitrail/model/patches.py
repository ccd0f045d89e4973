"""An image becomes a sequence of patches: x in R^(H x W x C) to x_p in R^(N x (P^2 C)), then to width D.

B batch, C channels, H height, W width, P and Q patch height and width, N patches = H/P * W/Q, D width.
"""

from __future__ import annotations

from torch import Tensor, nn

from vitrail.config import Pair, ViTConfig, check_divisible
from vitrail.errors import ConfigError
from vitrail.model.shared import check_channels
from vitrail.model.stems import STEMS


def cut(images: Tensor, patch_size: Pair) -> Tensor:
    """Images (B C H W) to flattened patches (B N PQC), row by row; inside a patch pixel by pixel, channels last."""
    b, c, h, w = images.shape
    p, q = patch_size
    grid = images.reshape(b, c, h // p, p, w // q, q)
    return grid.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * q * c)


def join(patches: Tensor, grid: Pair, patch_size: Pair) -> Tensor:
    """The inverse of `cut`: flattened patches (B N PQC) to images (B C H W)."""
    (rows, columns), (p, q) = grid, patch_size
    blocks = patches.reshape(patches.shape[0], rows, columns, p, q, -1)
    return blocks.permute(0, 5, 1, 3, 2, 4).reshape(patches.shape[0], -1, rows * p, columns * q)


class ConvPatches(nn.Module):
    """Cut and project in one step: a convolution whose kernel and stride are the patch. A stem may come first."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        kernel = (config.patch_size[0] // config.stem_stride[0], config.patch_size[1] // config.stem_stride[1])
        self.backbone = STEMS[config.stem](config) if config.stem != "none" else None
        channels = config.channels if self.backbone is None else self.backbone.out_channels
        self.proj = nn.Conv2d(channels, config.dim, kernel_size=kernel, stride=kernel)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B C H W) to patch embeddings (B N D)."""
        picture = images if self.backbone is None else self.backbone(images)
        return self.proj(picture).flatten(2).transpose(1, 2)  # B D rows columns -> B N D


class LinearPatches(nn.Module):
    """Cut, flatten, and multiply by the matrix E: the paper's words. vit-pytorch adds a LayerNorm on either side."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patch_size = config.patch_size
        pixels = config.patch_size[0] * config.patch_size[1] * config.channels
        self.norm_pixels = nn.LayerNorm(pixels, eps=config.norm_eps) if config.patch_norm else nn.Identity()
        self.proj = nn.Linear(pixels, config.dim)
        self.norm = nn.LayerNorm(config.dim, eps=config.norm_eps) if config.patch_norm else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Images (B C H W) to patch embeddings (B N D)."""
        return self.norm(self.proj(self.norm_pixels(cut(images, self.patch_size))))


PATCHES: dict[str, type[nn.Module]] = {"conv": ConvPatches, "linear": LinearPatches}


def check_images(images: Tensor, config: ViTConfig) -> Pair:
    """The grid of patches of these images; a picture the model cannot take is an error that says what it can."""
    check_channels(images, config.channels)
    height, width = int(images.shape[2]), int(images.shape[3])
    if (height, width) != config.image_size:
        if not config.any_size:
            expected = "x".join(map(str, config.image_size))
            raise ConfigError(
                f"images are {height}x{width} pixels, this model was built for {expected}",
                fix="resize them, or build the model with any_size=True to interpolate its positions",
            )
        for side, patch in zip((height, width), config.patch_size, strict=True):
            check_divisible(side, patch)
    return height // config.patch_size[0], width // config.patch_size[1]
