"""What methods share that hide patches and predict them: which are hidden, the loss on those, and how it looks.

B batch, N patches, M masked patches of the whole batch, P pixels of a patch times channels, T what is predicted of
a patch, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitrail.config import Preprocessing, ViTConfig
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.methods.base import Preview, SelfSupervised
from vitrail.methods.draws import Draws
from vitrail.model import ViT
from vitrail.model.patches import cut, join


class Masked(SelfSupervised):
    """A method says what is predicted, how it is compared, and how a prediction is painted."""

    def __init__(self, model: ViT, image: Preprocessing, seed: int, share: float) -> None:
        super().__init__(model, image, seed)
        self._check(model.config, share)
        self.share, self.patch = share, model.config.patch_size
        self.patches = model.config.grid[0] * model.config.grid[1]
        self.pixels = self.patch[0] * self.patch[1] * model.config.channels

    def forward(self, batch: Batch, epoch: int, step: int, progress: float) -> Tensor:
        """The mean loss over the masked patches alone."""
        del step, progress
        draws = Draws(self.seed, epoch, batch.indices)
        mask = self.choose(draws)
        return self.compare(self.predict(batch.images, mask, draws), self.targets(batch.images)[mask])

    def choose(self, draws: Draws) -> Tensor:
        """Which patches are masked (B N): of each picture the same number."""
        return lowest(draws.uniform(self.patches, "mask"), self.share)

    def predict(self, images: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Something about each masked patch (M T), from the others."""
        raise NotImplementedError

    def targets(self, images: Tensor) -> Tensor:
        """What is to be predicted of each patch (B N ...)."""
        raise NotImplementedError

    def compare(self, predicted: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of predictions (M T) for targets (M ...)."""
        raise NotImplementedError

    def constant(self, targets: Tensor) -> Tensor:
        """The one prediction for all patches (T) that their targets (M ...) suggest: their mean."""
        return targets.mean(dim=0)

    def paint(self, predicted: Tensor, patches: Tensor) -> Tensor:
        """Predictions (M T) as normalised pixels (M P); `patches` (M P) are the true ones."""
        raise NotImplementedError

    @torch.no_grad()
    def yardstick(self, images: Tensor) -> float | None:
        targets = self.targets(images).flatten(0, 1)
        return float(self.compare(self.constant(targets).expand(len(targets), -1), targets))

    @torch.no_grad()
    def preview(self, batch: Batch) -> Preview | None:
        draws = Draws(self.seed, 0, batch.indices)
        mask, patches = self.choose(draws), cut(batch.images, self.patch)
        masked, rebuilt = patches.clone(), patches.clone()
        masked[mask] = 0.0  # the mean colour
        rebuilt[mask] = self.paint(self.predict(batch.images, mask, draws), patches[mask])
        return Preview(*(self._shown(each) for each in (patches, masked, rebuilt)))

    def _shown(self, patches: Tensor) -> Tensor:
        images = join(patches, self.model.config.grid, self.patch)
        return self.to_pixels(images).to(torch.uint8).permute(0, 2, 3, 1).cpu()

    def _check(self, config: ViTConfig, share: float) -> None:
        if not 0 < share < 1:
            raise ConfigError(f"method.mask={share} is a share of the patches", fix="use a number between 0 and 1")
        if config.grid == (1, 1):
            raise ConfigError("a picture of one patch has nothing to predict it from", fix="use smaller patches")
        if config.stem != "none":
            raise ConfigError(
                f"stem={config.stem!r} mixes the pixels of neighbours, so that a masked patch shows through",
                fix="use model.stem=none, or the method dino",
            )
        if config.pool == "attention" or config.final_norm == "pooled":
            raise ConfigError(
                f"pool={config.pool!r} with final_norm={config.final_norm!r} has weights that predicting patches "
                "does not train",
                fix="use model.pool=mean model.final_norm=tokens, or the method dino",
            )


class MaskToken(nn.Module):
    """One learned vector in the place of every masked patch's embedding (1 1 D)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mask_token = nn.Parameter(torch.empty(1, 1, dim))
        nn.init.normal_(self.mask_token, std=0.02)

    def forward(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """Embeddings (B N D) with those masked (B N) replaced."""
        return torch.where(mask[..., None], self.mask_token.to(embeddings.dtype), embeddings)


def encode_patches(model: ViT, images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The encoded patches (B N D), without prefix tokens, of images whose embeddings were changed."""
    tokens, layout = model.embed(images, change=change)
    return model.encode(tokens, layout)[:, layout.prefix :]


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A dense layer as it starts in MAE: Xavier, no bias yet."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def lowest(scores: Tensor, share: float) -> Tensor:
    """The share of places (B N, bool) with the lowest scores (B N), the first of equals."""
    chosen = scores.argsort(dim=1, stable=True)[:, : how_many(scores.shape[1], share)]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, chosen, True)


def how_many(places: int, share: float) -> int:
    """Of so many places: at least one, and never all."""
    return min(places - 1, max(1, round(places * share)))
