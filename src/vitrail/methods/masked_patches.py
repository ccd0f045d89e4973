"""Masked patch prediction, the ViT paper's own self-supervision (section 4.6 and appendix B.1.2).

Half of the patch embeddings are corrupted: 80 % become a learned vector, 10 % the embedding of another patch, 10 %
stay as they are. Of each corrupted patch its colour is predicted, with 3 bits a channel.

B batch, N patches, M masked in the whole batch, k places inside a patch, P pixels of a patch times channels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Config, Preprocessing, one_of
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws
from vitrail.methods.masked import Masked, MaskToken, encode_patches, linear
from vitrail.model import ViT
from vitrail.model.patches import cut

PLACES = {"mean-colour": 1, "small-patch": 4, "pixels": 0}  # a side, at which colours are predicted; 0: regression
LEVELS = 8  # 3 bits
MOST_CHANNELS = 4  # 8 levels of five channels would be 32,768 classes


@dataclass(frozen=True)
class MaskedPatchesSettings(Config):
    """The three targets of the paper: the mean colour, a patch shrunk to 4x4 colours, all pixels (L2)."""

    mask: float = 0.5
    target: str = "mean-colour"

    def __post_init__(self) -> None:
        one_of("method.target", self.target, tuple(PLACES))


class MaskedPatches(Masked):
    """A classifier of colours, or a regression of pixels, on every corrupted patch."""

    def __init__(self, model: ViT, settings: MaskedPatchesSettings, image: Preprocessing, seed: int) -> None:
        super().__init__(model, image, seed, settings.mask)
        self.channels, self.side = model.config.channels, PLACES[settings.target]
        if self.side and self.channels > MOST_CHANNELS:
            raise ConfigError(f"{self.channels} channels have too many colours", fix="use method.target=pixels")
        self.colours = LEVELS**self.channels
        self.hide = MaskToken(model.config.dim)
        self.head = linear(model.config.dim, self.side**2 * self.colours if self.side else self.pixels)

    def predict(self, images: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        return self.head(encode_patches(self.model, images, lambda e: self.corrupt(e, mask, draws))[mask])

    def corrupt(self, embeddings: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Embeddings (B N D): of those masked 80 % hidden, 10 % taken from another patch of the picture, 10 % kept."""
        chance, count = draws.uniform(self.patches, "corrupt"), self.patches
        further = 1 + (draws.uniform(count, "other") * (count - 1)).long()  # places; never N: the patch itself
        other = (torch.arange(count, device=mask.device) + further) % count
        swapped = embeddings.gather(1, other[..., None].expand_as(embeddings))
        embeddings = torch.where((mask & (chance >= 0.8) & (chance < 0.9))[..., None], swapped, embeddings)
        return self.hide(embeddings, mask & (chance < 0.8))

    def targets(self, images: Tensor) -> Tensor:
        """Colour numbers (B N k), the first channel counting most; or pixels (B N P)."""
        if not self.side:
            return cut(images, self.patch)
        rows, columns = self.model.config.grid
        small = F.adaptive_avg_pool2d(self.to_pixels(images), (rows * self.side, columns * self.side))
        levels = small.div(256 / LEVELS).floor().long()  # B C rows columns
        weights = LEVELS ** torch.arange(self.channels - 1, -1, -1, device=images.device)
        return cut((levels * weights.view(1, -1, 1, 1)).sum(dim=1, keepdim=True), (self.side, self.side))

    def compare(self, predicted: Tensor, targets: Tensor) -> Tensor:
        if not self.side:
            return F.mse_loss(predicted.float(), targets)
        return F.cross_entropy(predicted.float().reshape(-1, self.colours), targets.flatten())

    def constant(self, targets: Tensor) -> Tensor:
        """Of colours: how often each comes at each place, as logits."""
        if not self.side:
            return super().constant(targets)
        counts = torch.stack([place.bincount(minlength=self.colours) for place in targets.unbind(dim=1)])  # k colours
        return (counts / len(targets)).clamp_min(1e-12).log().flatten()

    def paint(self, predicted: Tensor, patches: Tensor) -> Tensor:
        """The likeliest colour at each place, in the middle of what its 3 bits say."""
        if not self.side:
            return predicted
        number = predicted.unflatten(-1, (-1, self.colours)).argmax(dim=-1)  # M k
        powers = LEVELS ** torch.arange(self.channels - 1, -1, -1, device=number.device)
        levels = number[..., None] // powers % LEVELS  # M k C
        blocks = levels.float().unflatten(1, (self.side, self.side)).permute(0, 3, 1, 2)  # M C side side
        pixels = F.interpolate((blocks + 0.5) * (256 / LEVELS), self.patch)
        return cut(self.from_pixels(pixels), self.patch)[:, 0].to(patches)
