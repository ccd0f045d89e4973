"""DINO (Caron et al. 2021, arXiv:2104.14294): a student learns to say of a small part what its teacher says of the
whole; the teacher is the running average of the student, and what is kept.

B batch, V views, D width, K outputs.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Config, Pair, Preprocessing
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.methods.base import SelfSupervised
from vitrail.methods.draws import Draws
from vitrail.methods.views import view
from vitrail.model import ViT
from vitrail.model.init import lecun

ALIKE = 0.1  # spread of the features, 1 where they are spread evenly, below which all pictures look the same to it
PAIRED = 2  # large views, those that the teacher sees


@dataclass(frozen=True)
class DINOSettings(Config):
    """The paper's, but smaller: outputs, head and number of views for minutes, not days."""

    outputs: int = 1024  # the paper: 65,536
    hidden: int = 512  # of the head; the paper: 2048
    bottleneck: int = 128  # the paper: 256
    small_views: int = 4  # the paper: 8; none of pictures that are small themselves (LOG.md)
    small_size: float = 0.5  # side of the small views, as a share of the large ones'; the paper: 96 of 224
    large_scale: tuple[float, float] = (0.4, 1.0)
    small_scale: tuple[float, float] = (0.15, 0.4)  # the paper: from 0.05, a blur where pictures have 32 pixels
    flip: bool = True
    momentum: float = 0.99  # of the teacher at the first step; 1 at the last
    centre_momentum: float = 0.9
    student_temperature: float = 0.1
    teacher_temperature: float = 0.07
    first_temperature: float = 0.04  # of the teacher, rising to that over the warm-up
    temperature_warmup: float = 0.3  # share of the run; the paper: 30 of 100 epochs

    def __post_init__(self) -> None:
        for name in ("large_scale", "small_scale"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            low, high = getattr(self, name)
            if not 0 < low <= high <= 1:
                raise ConfigError(f"method.{name}={(low, high)} are shares of the area", fix="use such as [0.4, 1.0]")
        for name in ("momentum", "centre_momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"method.{name}={getattr(self, name)} must lie in [0, 1)")
        for name in ("student_temperature", "teacher_temperature", "first_temperature", "small_size"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"method.{name}={getattr(self, name)} must lie in (0, 1]")
        for name, least in (("outputs", 2), ("hidden", 1), ("bottleneck", 1), ("small_views", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"method.{name}={getattr(self, name)} must be at least {least}")


class DINO(SelfSupervised):
    """`model` is the teacher's encoder; the student's is what gradients reach."""

    loss_compares = False  # the teacher moves, and a collapsed pair agrees best of all
    moves_weights = True  # the teacher's, beside the optimiser

    def __init__(self, model: ViT, settings: DINOSettings, image: Preprocessing, seed: int) -> None:
        super().__init__(model, image, seed)
        self.settings, self.sizes = settings, view_sizes(model, settings)
        self.student = copy.deepcopy(model)
        self.student_head = Head(model.config.feature_dim, settings)
        self.head = copy.deepcopy(self.student_head)
        for teacher in (self.model, self.head):
            teacher.requires_grad_(False)
        self.centre: Tensor
        self.register_buffer("centre", torch.zeros(settings.outputs))
        self._step, self._centred = -1, False
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """The teacher is never in training mode: it drops nothing."""
        super().train(mode)
        self.model.eval()
        self.head.eval()
        return self

    def forward(self, batch: Batch, epoch: int, step: int, progress: float) -> Tensor:
        if self.training and step != self._step:  # not again for the second batch of a step
            self._follow(progress)
            self._step = step
        views = self.views(batch, epoch)
        said = self._ask(self.student, self.student_head, views) / self.settings.student_temperature  # V B K
        with torch.no_grad():
            heard = self._ask(self.model, self.head, views[:PAIRED])  # 2 B K
        counted = heard[:, batch.indices >= 0]  # a process without a picture has a stand-in
        if self.training and not self._centred and not self.centre.any():
            self._move_centre(counted, momentum=0.0)
        loss = cross_entropy(said, self.sharpened(heard, progress))
        if self.training:
            self._move_centre(counted, self.settings.centre_momentum)
        return loss

    def views(self, batch: Batch, epoch: int) -> list[Tensor]:
        """Two large views of each picture, then the small ones; normalised."""
        draws, chosen = Draws(self.seed, epoch, batch.indices), self.settings
        pixels = batch.images * self._std + self._mean
        kinds = [(self.sizes[0], chosen.large_scale)] * PAIRED + [
            (self.sizes[1], chosen.small_scale)
        ] * chosen.small_views
        made = (view(pixels, size, scale, chosen.flip, draws, str(n)) for n, (size, scale) in enumerate(kinds))
        return [(each - self._mean) / self._std for each in made]

    def sharpened(self, heard: Tensor, progress: float) -> Tensor:
        """The teacher's outputs (2 B K), centred, as probabilities that are sharper than the student's."""
        chosen = self.settings
        warm = min(1.0, progress / max(1e-9, chosen.temperature_warmup))
        temperature = chosen.first_temperature + warm * (chosen.teacher_temperature - chosen.first_temperature)
        return ((heard - self.centre) / temperature).softmax(dim=-1)

    def _ask(self, model: ViT, head: Head, views: list[Tensor]) -> Tensor:
        """Outputs for each view (V B K); views of one size go through the encoder together."""
        sizes = dict.fromkeys(each.shape[-2:] for each in views)
        groups = [torch.cat([each for each in views if each.shape[-2:] == size]) for size in sizes]
        features = torch.cat([model.features(group) for group in groups])
        return head(features).float().unflatten(0, (len(views), -1))

    @torch.no_grad()
    def _follow(self, progress: float) -> None:
        """The teacher a little nearer to the student as the last step left it; ever less, on a cosine to nothing."""
        share = (1 - self.settings.momentum) * (1 + math.cos(math.pi * progress)) / 2
        for teacher, student in ((self.model, self.student), (self.head, self.student_head)):
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                old.lerp_(new, share)
            for kept, current in zip(teacher.buffers(), student.buffers(), strict=True):
                kept.copy_(current)

    @torch.no_grad()
    def _move_centre(self, heard: Tensor, momentum: float) -> None:
        """Towards the mean output of the batch, over all processes: no output may win for every picture.

        The first batch's own mean is where it starts: at zero, the paper's start, all pictures get the same answer for
        as long as the centre needs to arrive, which in a run of minutes is a good part of it (LOG.md).
        """
        total, count = heard.sum(dim=(0, 1)), heard.new_tensor(len(heard) * heard.shape[1])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(total)
            dist.all_reduce(count)
        self.centre.lerp_(total / count, 1 - momentum)
        self._centred = True

    @torch.no_grad()
    def health(self, images: Tensor) -> dict[str, float]:
        """Spread of the features and entropy of the teacher's answers, as shares of what they could be."""
        features = self.model.features(images)
        said = self.sharpened(self.head(features).float(), 1.0)
        directions = F.normalize(features.float(), dim=1)
        spread = directions.std(dim=0).mean() * math.sqrt(features.shape[1])
        entropy = -(said * said.clamp_min(1e-12).log()).sum(dim=1).mean() / math.log(said.shape[1])
        return {"feature_spread": float(spread), "teacher_entropy": float(entropy)}

    def warning(self, figures: dict[str, float]) -> str | None:
        alike, flat = figures["feature_spread"] < ALIKE, figures["teacher_entropy"] > 1 - ALIKE**2
        if not alike and not flat:
            return None
        what = "all pictures have nearly the same features" if alike else "the teacher says nothing of any picture"
        return f"{what}: it has collapsed; try a lower optim.lr, method.teacher_temperature or a larger batch"


class Head(nn.Module):
    """Three layers to a bottleneck on the unit sphere, then one whose rows are unit vectors too (B D -> B K)."""

    def __init__(self, inputs: int, settings: DINOSettings) -> None:
        super().__init__()
        widths = (inputs, settings.hidden, settings.hidden, settings.bottleneck)
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        for layer in layers:
            # The paper's deviation of 0.02 is about this at its width; in a narrow head nothing would be left but a
            # line, and pictures stay alike (LOG.md).
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)
        self.directions = nn.Parameter(torch.empty(settings.outputs, settings.bottleneck))
        lecun(self.directions)

    def forward(self, features: Tensor) -> Tensor:
        first, second, third = self.layers
        hidden = F.gelu(second(F.gelu(first(features))))
        return F.linear(F.normalize(third(hidden), dim=-1), F.normalize(self.directions, dim=-1))


def cross_entropy(said: Tensor, heard: Tensor) -> Tensor:
    """Of every student view's logits (V B K) with every teacher view's probabilities (2 B K), but for a view's own."""
    logs = said.log_softmax(dim=-1)
    every = (heard.sum(dim=0) * logs.sum(dim=0)).sum(dim=-1)  # a sum over pairs is a product of sums
    own = (heard * logs[: len(heard)]).sum(dim=(0, -1))
    return (own - every).mean() / (len(heard) * (len(said) - 1))


def view_sizes(model: ViT, settings: DINOSettings) -> tuple[Pair, Pair]:
    """Of large and small views, in whole patches."""
    size, patch = model.config.image_size, model.config.patch_size
    small = [max(1, round(side * settings.small_size / p)) * p for side, p in zip(size, patch, strict=True)]
    if settings.small_views and (small[0], small[1]) != size and not model.config.any_size:
        raise ConfigError(
            f"small views of {small[0]}x{small[1]} pixels need a model for any size",
            fix="use model.any_size=true, or method.small_views=0",
        )
    return size, (small[0], small[1])
