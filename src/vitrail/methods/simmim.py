"""SimMIM (Xie et al. 2021, arXiv:2111.09886): a mask token at the input, one linear layer, L1 on the masked pixels.

B batch, N patches, M masked in the whole batch, P pixels of a patch times channels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Config, Preprocessing
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws
from vitrail.methods.masked import Masked, MaskToken, encode_patches, how_many, linear, lowest
from vitrail.model import ViT
from vitrail.model.patches import cut


@dataclass(frozen=True)
class SimMIMSettings(Config):
    """The paper's: squares of 32 pixels are masked where patches have 16."""

    mask: float = 0.6
    unit: int = 2  # patches a side of the squares that are masked together

    def __post_init__(self) -> None:
        if self.unit < 1:
            raise ConfigError(f"method.unit={self.unit} is a number of patches", fix="use 2")


class SimMIM(Masked):
    """All patches go through the encoder, those masked as one learned vector."""

    def __init__(self, model: ViT, settings: SimMIMSettings, image: Preprocessing, seed: int) -> None:
        super().__init__(model, image, seed, settings.mask)
        self.unit = settings.unit
        if settings.unit >= max(model.config.grid):
            raise ConfigError(
                f"squares of {settings.unit} patches cover the whole grid of {model.config.grid}",
                fix="use method.unit=1",
            )
        self.hide = MaskToken(model.config.dim)
        self.head = linear(model.config.dim, self.pixels)

    def choose(self, draws: Draws) -> Tensor:
        """Whole squares of patches. Those at the edge of a grid that they do not divide are smaller; so that all
        pictures have as many masked patches, the last square is masked in part there.
        """
        rows, columns = self.model.config.grid
        squares = -(-rows // self.unit), -(-columns // self.unit)
        count = squares[0] * squares[1]
        scores = draws.uniform(count, "mask").unflatten(1, squares)
        patches = scores.repeat_interleave(self.unit, dim=1).repeat_interleave(self.unit, dim=2)
        return lowest(patches[:, :rows, :columns].flatten(1), how_many(count, self.share) / count)

    def predict(self, images: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        del draws
        encoded = encode_patches(self.model, images, lambda embeddings: self.hide(embeddings, mask))
        return self.head(encoded[mask])

    def targets(self, images: Tensor) -> Tensor:
        return cut(images, self.patch)

    def compare(self, predicted: Tensor, targets: Tensor) -> Tensor:
        return F.l1_loss(predicted.float(), targets)

    def paint(self, predicted: Tensor, patches: Tensor) -> Tensor:
        del patches
        return predicted
