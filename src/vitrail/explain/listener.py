"""A recorder that hands what it hears to others, with its gradients, and may put something else in its place.

B batch, N tokens.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.model.patches import check_images
from vitrail.model.trace import Silent

Hear = Callable[[Tensor], Tensor | None]


class Listener(Silent):
    """`Listener(attention=kept.append)`: called with each block's; what it returns, if anything, is used instead.

    Nothing is kept here, so one layer at a time is held unless the one who hears keeps them.
    """

    keeps = True

    def __init__(self, **heard: Hear) -> None:
        self._heard = heard

    def __call__(self, name: str, value: Tensor) -> Tensor:
        hear = self._heard.get(name)
        other = None if hear is None else hear(value)
        return value if other is None else other

    def inside(self, name: str) -> Listener:
        del name
        return self


def on_grid(tokens: Tensor, images: Tensor, config: ViTConfig) -> Tensor:
    """A value for each token (B N) to those of the patches (B rows columns)."""
    rows, columns = check_images(images, config)
    return tokens[:, config.prefix_tokens :].unflatten(1, (rows, columns))
