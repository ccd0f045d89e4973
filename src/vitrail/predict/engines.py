"""What computes the logits. All engines take the same pictures, so that one can stand in for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Preprocessing
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise

if TYPE_CHECKING:
    from vitrail.model import Model


class Engine(Protocol):
    """Prepared pictures (N x rows x columns x channels, 0 to 255) to logits (N x K)."""

    @property
    def name(self) -> str: ...

    def __call__(self, batch: Pixels) -> NDArray[np.float32]: ...


class TorchEngine:
    """The model itself, in evaluation mode, where and in the precision it is in.

    `mirror=True` also shows each picture the other way round, and takes the mean of both answers: a little more
    accurate where left and right do not matter, at twice the cost.
    """

    name = "torch"

    def __init__(self, model: Model, preprocessing: Preprocessing, *, mirror: bool = False) -> None:
        self.model, self.preprocessing, self.mirror = model, preprocessing, mirror

    def __call__(self, batch: Pixels) -> NDArray[np.float32]:
        import torch

        images = torch.from_numpy(normalise(batch, self.preprocessing)).to(next(self.model.parameters()))
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                logits = self.model(images)
                if self.mirror:
                    logits = (logits + self.model(images.flip(-1))) / 2
        finally:
            self.model.train(was_training)
        answers: NDArray[np.float32] = logits.float().cpu().numpy()
        return answers
