"""A picture made ready for a model, and everything the model computed from it.

B batch, N tokens, D width, H heads, d width per head, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vitrail.config import Pair, Preprocessing, ViTConfig
from vitrail.data.prepare import normalise
from vitrail.errors import ConfigError
from vitrail.explain.methods import evaluating
from vitrail.explain.walk_parts import Array, Pixels
from vitrail.model.patches import cut
from vitrail.model.trace import Silent
from vitrail.model.vit import ViT


class Recorder(Silent):
    """Keeps the first block whole and, of the others, what leaves them and where one token looks.

    A full trace of a large model on a large picture would hold gigabytes of attention nobody is shown.
    """

    keeps = True

    def __init__(self, query: int, values: dict[str, Tensor] | None = None, prefix: str = "") -> None:
        self.query, self.prefix = query, prefix
        self.values: dict[str, Tensor] = {} if values is None else values

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.prefix in ("", "block.0.") or name == "out":
            self.values[self.prefix + name] = value.clone()
        elif name == "attention":
            self.values[self.prefix + name] = value[:, :, self.query : self.query + 1].clone()
        return value

    def inside(self, name: str) -> Recorder:
        return Recorder(self.query, self.values, f"{self.prefix}{name}.")


@dataclass(frozen=True)
class Scene:
    """One picture inside one model. Of all tokens, `query` is the one whose attention is shown.

    The patch that is followed is what the class token looks at most in the first block or, where there is none, the
    patch with the most contrast; that one is then the query, too.
    """

    model: ViT
    pixels: Pixels  # H W C, as the model sees them before normalising
    rule: Preprocessing
    classes: tuple[str, ...]
    followed: int
    values: dict[str, Tensor] = field(repr=False)

    @classmethod
    def of(cls, model: ViT, pixels: Pixels, rule: Preprocessing, classes: Sequence[str]) -> Scene:
        images = torch.from_numpy(normalise(pixels[None], rule)).to(next(model.parameters()))
        contrast = cut(images, model.config.patch_size)[0].float().std(dim=1, correction=0)
        prefix, followed = model.config.prefix_tokens, int(contrast.argmax())
        recorder = Recorder(0 if model.config.class_token else prefix + followed)
        with torch.no_grad(), evaluating(model):
            model(images, recorder)
        if model.config.class_token:
            followed = int(recorder.values["block.0.attention"][0, :, 0, prefix:].mean(dim=0).argmax())
        return cls(model, pixels, rule, tuple(classes), followed, recorder.values)

    @property
    def config(self) -> ViTConfig:
        return self.model.config

    @property
    def grid(self) -> Pair:
        (rows, columns), (p, q) = self.pixels.shape[:2], self.config.patch_size
        return rows // p, columns // q

    @property
    def patches(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def followed_token(self) -> int:
        return self.config.prefix_tokens + self.followed

    @property
    def query(self) -> int:
        return 0 if self.config.class_token else self.followed_token

    @property
    def token_names(self) -> tuple[str, ...]:
        """In the order of the sequence: class, distillation, register 1, ..., patch 1, ..."""
        named = {"class": self.config.class_token, "distillation": self.config.distill_token}
        front = tuple(name for name, there in named.items() if there)
        registers = tuple(f"register {i + 1}" for i in range(self.config.registers))
        return (*front, *registers, *self.patch_names)

    @property
    def query_name(self) -> str:
        """The query in a sentence."""
        return "the class token" if self.config.class_token else self.token_names[self.query]

    @property
    def patch_names(self) -> tuple[str, ...]:
        return tuple(f"patch {i + 1}" for i in range(self.patches))

    @property
    def keep(self) -> tuple[int, ...]:
        """The rows of a table of tokens that an excerpt shows in any case."""
        return tuple(sorted({self.query, self.followed_token}))

    def value(self, name: str) -> Array:
        """An intermediate by its name in the trace, of the one picture, without the batch dimension."""
        return numpy(self.values[name][0])

    def weight(self, name: str) -> Array | None:
        """A parameter by its name in the state dict; None if this model has none."""
        found = self.model.state_dict().get(name)
        return None if found is None else numpy(found)

    def norm(self, name: str, x: Array) -> Array:
        """The LayerNorm of this name, of each row of x."""
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        assert scale is not None
        assert shift is not None
        scale_, shift_ = torch.from_numpy(scale), torch.from_numpy(shift)
        return numpy(F.layer_norm(torch.from_numpy(x), x.shape[-1:], scale_, shift_, self.config.norm_eps))

    def linear(self, name: str, x: Array) -> Array:
        """The dense layer of this name, of each row of x."""
        matrix, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        assert matrix is not None
        return x @ matrix.T if bias is None else x @ matrix.T + bias


def numpy(x: Tensor) -> Array:
    return x.detach().float().cpu().numpy()


# ---- pixels -------------------------------------------------------------------------------------------------------


def with_channels(image: Pixels, channels: int) -> Pixels:
    """A picture (rows x columns, or x channels) with the channels the model takes; grey and colour are converted."""
    image = np.asarray(image)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise ConfigError(
            f"a picture of shape {image.shape} and type {image.dtype}", fix="give rows x columns x channels of uint8"
        )
    if image.shape[2] == channels:
        return image
    if {image.shape[2], channels} == {1, 3}:
        mode = "L" if channels == 1 else "RGB"
        picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        return np.asarray(picture.convert(mode)).reshape(*image.shape[:2], channels)
    raise ConfigError(
        f"the picture has {image.shape[2]} channels, the model takes {channels}", fix=f"give {channels} channels"
    )


def displayable(pixels: Pixels) -> Pixels:
    """Grey or RGB, whatever the channels: the first three, or the first."""
    return pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1]
