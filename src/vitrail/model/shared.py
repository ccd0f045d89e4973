"""What the ViT and the ResNet share."""

from __future__ import annotations

from torch import Tensor, nn

from vitrail.errors import ConfigError


class DropPath(nn.Module):
    """Stochastic depth: in training, a sample skips the branch with this probability."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return x
        keep = 1 - self.probability
        return x * x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(keep).div_(keep)


def check_channels(images: Tensor, channels: int) -> None:
    if images.dim() != 4 or images.shape[1] != channels:
        raise ConfigError(
            f"images have shape {tuple(images.shape)}, this model takes (batch, {channels}, height, width)",
            fix="add the batch dimension" if images.dim() == 3 else f"give {channels} channels",
        )
