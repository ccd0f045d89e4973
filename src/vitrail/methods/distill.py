"""Learning from a teacher's answers beside the labels (Hinton et al., 2015; DeiT: Touvron et al., 2021).

    loss = (1 - alpha) * loss of the labels + alpha * loss of the teacher's answers
    soft:  T^2 KL(teacher's answers at temperature T, ours at temperature T)
    hard:  cross-entropy with the class that the teacher names

A model with a distillation token answers the labels by its class token and the teacher by the other; when it is used,
the mean of both is its answer.

B batch, K classes, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Config, ViTConfig, one_of
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.methods.supervised import Regularisation, Supervised
from vitrail.model import Model

KINDS = ("hard", "soft")


class Teacher:
    """Whoever answers to a batch. No module, so its weights are neither trained, averaged nor saved with ours."""

    def __call__(self, batch: Batch) -> Tensor:
        """Logits B x K, in the order of our classes."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, object]) -> Teacher:
        """The average of a method's weights is a copy of the method, and has the same teacher."""
        return self


@dataclass(frozen=True)
class Distillation(Config):
    """Whom to learn from, and how."""

    teacher: str | None = None  # a model; None: from the labels alone
    kind: str = "hard"
    alpha: float = 0.5  # how much the teacher counts, from 0 to 1
    temperature: float = 3.0  # of soft answers
    token: bool = False  # a distillation token of its own in the model
    cached: bool = True  # answers to the pictures as they are, computed once; else to each augmented batch

    def __post_init__(self) -> None:
        one_of("distill.kind", self.kind, KINDS)
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"distill.alpha={self.alpha} must lie in 0 to 1", fix="0.5 is a usual value")
        if not 0 < self.temperature < float("inf"):
            raise ConfigError(f"distill.temperature={self.temperature} must be positive", fix="3 is a usual value")


class Distilled(Supervised):
    """Supervised learning with a teacher."""

    def __init__(
        self,
        model: Model,
        classes: int,
        settings: Regularisation,
        seed: int,
        weights: Tensor | None,
        teacher: Teacher,
        distillation: Distillation,
    ) -> None:
        super().__init__(model, classes, settings, seed, weights)
        self.teacher, self.distillation = teacher, distillation

    def forward(self, batch: Batch, epoch: int, step: int, progress: float) -> Tensor:
        """The mean loss of a batch. Mixed pictures have mixed labels, and mixed answers of the teacher."""
        images, labels, taught = batch.images, self._targets(batch.targets), self._taught(batch)
        if self.mixing.active:
            both = torch.cat([labels, taught], dim=1)  # B 2K
            images, both = self.mixing(images, both, self.seed, epoch, step)
            labels, taught = both.chunk(2, dim=1)
        by_label, by_teacher = self._both_logits(images, progress)
        alpha = self.distillation.alpha
        return (1 - alpha) * self._loss(by_label, labels, several=False) + alpha * self._lesson(by_teacher, taught)

    def _taught(self, batch: Batch) -> Tensor:
        """The teacher's answers as probabilities (B K)."""
        with torch.no_grad():
            logits = self.teacher(batch).to(batch.images)
        if self.distillation.kind == "hard":
            return F.one_hot(logits.argmax(dim=1), self.classes).to(logits.dtype)
        return (logits / self.distillation.temperature).softmax(dim=1)

    def _both_logits(self, images: Tensor, progress: float) -> tuple[Tensor, Tensor]:
        """What is compared with the labels, and what with the teacher; the same without a distillation token."""
        features = self._features(images, progress)
        config = self.model.config
        if not isinstance(config, ViTConfig) or not config.distill_token:
            logits = self.model.classify(features)
            return logits, logits
        # The head reads [class token, distillation token] of each layer: one at twice its size and the other at zero
        # is the answer of one token alone, and the mean of the two such answers is the answer of both.
        pairs = 2 * features.unflatten(1, (-1, 2, config.dim))
        first, second = (torch.zeros_like(pairs) for _ in range(2))
        first[:, :, 0], second[:, :, 1] = pairs[:, :, 0], pairs[:, :, 1]
        return self.model.classify(first.flatten(1)), self.model.classify(second.flatten(1))

    def _lesson(self, logits: Tensor, taught: Tensor) -> Tensor:
        logits = logits.float()
        if self.distillation.kind == "hard":
            return F.cross_entropy(logits, taught)
        ours = (logits / self.distillation.temperature).log_softmax(dim=1)
        return self.distillation.temperature**2 * F.kl_div(ours, taught, reduction="batchmean")
