"""The logit lens: what the model would say if it stopped after a block.

The tokens after the block go through the model's own last norm, pooling and head, which were trained for the last
block's only: early answers are rough, and the point is to see where they become the last one.

B batch, T tokens, D width, K classes, L blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from vitrail.evaluate.metrics import Floats
from vitrail.model.vit import ViT


class Answers(NamedTuple):
    """One picture: the class the model says in the end, and after each block its probability and the class on top."""

    label: int
    probability: tuple[float, ...]
    top: tuple[int, ...]
    top_probability: tuple[float, ...]


def why_no_lens(model: ViT) -> str | None:
    if not model.config.num_classes:
        return "no logit lens: this model has no head"
    if len(model.config.read_layers) > 1:
        return "no logit lens: the head of this model reads several blocks together"
    return None


def logits_after(model: ViT, tokens: Tensor) -> Tensor:
    """Tokens as they leave a block (B T D) to logits (B K)."""
    return model.classify(model.fc_norm(model.attn_pool(model.norm(tokens))))


def answers(probabilities: list[Floats]) -> list[Answers]:
    """From the probabilities after each block (L of B x K) to one row a picture."""
    stacked = np.stack(probabilities, axis=1)  # B L K
    last = stacked[:, -1].argmax(axis=1)
    tops = stacked.argmax(axis=2)
    return [
        Answers(int(k), tuple(rows[:, k].tolist()), tuple(top.tolist()), tuple(rows.max(axis=1).tolist()))
        for k, rows, top in zip(last, stacked, tops, strict=True)
    ]
