"""What the model looked at, as small arrays and as a picture. Torch is imported when someone asks."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.errors import ConfigError
from vitrail.page.pictures import png
from vitrail.predict.predictor import Predictor

if TYPE_CHECKING:
    from vitrail.model import Model

Heat = NDArray[np.float32]  # rows x columns of pixels

HOT = np.array((255.0, 64.0, 32.0), np.float32)
STRONGEST = 0.7  # share of the colour where the heat is greatest


def shown_model(predictor: Predictor) -> Model | None:
    """The model, where the engine shows its weights."""
    try:
        return predictor.model
    except ConfigError:
        return None


def shows_attention(predictor: Predictor) -> bool:
    return hasattr(shown_model(predictor), "attention")


def explaining(predictor: Predictor) -> tuple[str, ...]:
    """The ways to explain an answer that this model allows."""
    if shown_model(predictor) is None:
        return ()
    from vitrail.explain.methods import METHODS

    attention = shows_attention(predictor)
    return tuple(name for name, method in METHODS.items() if method.any_model or attention)


def attention_maps(predictor: Predictor, picture: Pixels) -> NDArray[np.float32]:
    """What the pooled token looks at in each layer, the mean over its heads: layers x rows x columns."""
    import torch

    from vitrail.explain.attention import heads

    model: Any = predictor.model
    image = torch.from_numpy(normalise(picture[None], predictor.preprocessing)).to(next(model.parameters()))
    maps: NDArray[np.float32] = heads(model.eval(), image)[0].mean(dim=1).float().cpu().numpy()
    return maps


def heat_of(predictor: Predictor, data: bytes, method: str) -> Heat:
    """By a method of `vitrail.explain`, of the answered class, enlarged to the picture as the model sees it."""
    from vitrail.explain.methods import explain

    return explain(predictor, data, method=method).enlarged(predictor.preprocessing.size)


def overlay(picture: Pixels, heat: Heat) -> str:
    """The picture as the model saw it, warm where the heat is, as a PNG in a data: address."""
    span = float(heat.max() - heat.min()) or 1.0
    warmth = ((heat - heat.min()) / span)[..., None] * STRONGEST
    coloured = picture[..., :3] if picture.shape[2] >= 3 else picture[..., :1]  # one channel spreads over three
    mixed = coloured * (1 - warmth) + HOT * warmth
    return "data:image/png;base64," + b64encode(png(mixed.round().astype(np.uint8))).decode("ascii")
