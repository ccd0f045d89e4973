"""Changes of pictures of one size, by name: the operations that augmentation policies choose from.

Every picture has an operation of its own, and an amount. What has no meaning for pictures gives them back: a change of
colour of grey ones, and all but geometry of those of neither 1 nor 3 channels, whose channels move together. What
geometry brings in from outside is mid-grey, as in the code of the authors of AutoAugment.

Each gives the pixels that Pillow's function of that name does; but what turning and shearing mix is rounded, not cut,
and blended with the grey at the edge. Operations of a kind are done in one go, which takes a third of Pillow's time:
where a new value depends on the old one alone, a table of 256 values says it; else it is torch's work.

N pictures, H rows, W columns, C channels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor

from vitrail.config import Pair
from vitrail.data.examples import Pixels

How = TypeVar("How")
Amounts = NDArray[np.float64]  # N
Table = NDArray[np.uint8]  # of 256 new values; with leading axes, where there are several
Counts = NDArray[np.int64]  # N x C x 256: how often each value comes

_MIDDLE = 128
_VALUES = np.arange(256)


class Kind(NamedTuple):
    """Operations that are done in one go: `apply(batch, those of the pictures, their amounts)`."""

    apply: Callable[[Pixels, Sequence[Any], Amounts], Pixels]
    operations: Mapping[str, Any]


def operate(batch: Pixels, names: Sequence[str], amounts: Amounts) -> None:
    """Change the pictures of a batch (N x H x W x C), each by an operation of its own."""
    for apply, operations in _KINDS.get(batch.shape[-1], _GEOMETRY):
        places = [place for place, name in enumerate(names) if name in operations]
        places.sort(key=lambda place: names[place])  # alike ones are neighbours
        if places:
            chosen = [operations[names[place]] for place in places]
            batch[places] = apply(batch[places], chosen, amounts[places])


def _alike(chosen: Sequence[How]) -> Iterator[tuple[slice, How]]:
    """Each that is there, and from where to where."""
    start = 0
    for one, count in Counter(chosen).items():
        yield slice(start, start + count), one
        start += count


# One by one


def _each(batch: Pixels, chosen: Sequence[Callable[[Pixels, float], Pixels]], amounts: Amounts) -> Pixels:
    return np.stack([change(*how) for change, *how in zip(chosen, batch, amounts.tolist(), strict=True)])


def _by_pillow(change: Callable[[Image.Image, float], Image.Image]) -> Callable[[Pixels, float], Pixels]:
    """What Pillow does to a grey or RGB picture."""
    return lambda pixels, amount: np.asarray(change(_image(pixels), amount)).reshape(pixels.shape)


def _image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0])


def _moved(pixels: Pixels, right: float, down: float) -> Pixels:
    """By whole pixels, so nothing is interpolated."""
    moved = np.full_like(pixels, _MIDDLE)
    (to_rows, rows), (to_columns, columns) = _overlap(int(down), len(pixels)), _overlap(int(right), pixels.shape[1])
    moved[to_rows, to_columns] = pixels[rows, columns]
    return moved


def _overlap(by: int, count: int) -> tuple[slice, slice]:
    """Where what stays inside goes, and where it comes from."""
    by = max(-count, min(count, by))
    return slice(max(0, by), count + min(0, by)), slice(max(0, -by), count - max(0, by))


# By matrix: (a, b, c, d, e, f) says that pixel (x, y) comes from (a x + b y + c, d x + e y + f)


def _by_matrix(batch: Pixels, chosen: Sequence[Callable[[float, Pair], tuple[float, ...]]], amounts: Amounts) -> Pixels:
    """Each pixel a mixture of the four around where it comes from; outside is grey, which is 0 while they are mixed."""
    count, height, width, _ = batch.shape
    matrices = torch.tensor(
        [make(amount, (height, width)) for make, amount in zip(chosen, amounts.tolist(), strict=True)]
    )
    x, y = torch.arange(width) + 0.5, (torch.arange(height) + 0.5)[:, None]
    places = torch.empty(count, height, width, 2)  # from -1 to 1 over the picture, as torch has it
    for axis, size in enumerate((width, height)):
        across, down, more = 2 / size * matrices[:, 3 * axis : 3 * axis + 3].T[:, :, None, None]
        torch.add(across * x, down * y + (more - 1), out=places[..., axis])
    values = (torch.from_numpy(batch).permute(0, 3, 1, 2) - float(_MIDDLE)).contiguous()
    mixed = F.grid_sample(values, places, mode="bilinear", padding_mode="zeros", align_corners=False)
    fetched: Pixels = mixed.add_(_MIDDLE + 0.5).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    return fetched


def _rotation(degrees: float, size: Pair) -> tuple[float, ...]:
    """Around the middle."""
    cos, sin, y, x = math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), size[0] / 2, size[1] / 2
    return cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y


# Blended with something duller, or away from it


def _by_blend(batch: Pixels, chosen: Sequence[Callable[[Tensor], Tensor]], more: Amounts) -> Pixels:
    """1 + `more` of the picture and the rest of what `chosen` makes of it."""
    values = torch.from_numpy(batch).float()
    dull = torch.empty_like(values)
    for part, make in _alike(chosen):
        dull[part] = make(values[part])
    shares = torch.from_numpy(1 + more).float()[:, None, None, None]
    blended: Pixels = values.sub_(dull).mul_(shares).add_(dull).clamp_(0, 255).to(torch.uint8).numpy()
    return blended


def _grey(values: Tensor) -> Tensor:
    """Luma, with Pillow's weights of 1 / 65536, which single precision adds up exactly."""
    if values.shape[-1] == 1:
        return values
    luma = F.linear(values, torch.tensor([[19595.0, 38470.0, 7471.0]]))
    return luma.add_(2**15).div_(2**16).floor_()


def _mean_grey(values: Tensor) -> Tensor:
    means = _grey(values).mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64)
    return means.add_(0.5).floor_().float()


def _smooth(values: Tensor) -> Tensor:
    """As Pillow's filter SMOOTH: pixels around each count once, itself five times; the border stays."""
    smooth = values.clone()
    if min(values.shape[1:3]) >= 3:
        lines = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
        around = lines[:, :, :-2] + lines[:, :, 1:-1] + lines[:, :, 2:]
        smooth[:, 1:-1, 1:-1] = around.add_(values[:, 1:-1, 1:-1], alpha=4).div_(13).add_(0.5).floor_()
    return smooth


# By table


def _by_table(batch: Pixels, chosen: Sequence[Callable[[float], Table]], amounts: Amounts) -> Pixels:
    """Every value looked up."""
    found = (
        pixels.tobytes().translate(make(amount).tobytes())
        for pixels, make, amount in zip(batch, chosen, amounts.tolist(), strict=True)
    )
    return np.frombuffer(b"".join(found), np.uint8).reshape(batch.shape)


def _posterize(bits: float) -> Table:
    return (_VALUES & -(2 ** (8 - round(bits)))).astype(np.uint8)


def _solarize(part: float) -> Table:
    return np.where(math.ceil(255 * part) > _VALUES, _VALUES, 255 - _VALUES).astype(np.uint8)


# By how often each value comes


def _by_counts(batch: Pixels, chosen: Sequence[Callable[[Counts], Table]], _: Amounts) -> Pixels:
    """Every value looked up in the table of its picture and channel (N x C x 256)."""
    count, height, width, channels = batch.shape
    tables = 256 * torch.arange(count * channels, dtype=torch.int32).reshape(count, 1, channels)
    places = (torch.from_numpy(batch).reshape(count, height, -1) + tables.repeat(1, 1, width)).reshape(-1)
    counts = torch.bincount(places, minlength=256 * count * channels).numpy().reshape(count, channels, 256)
    made = np.empty(counts.shape, np.uint8)
    for part, make in _alike(chosen):
        made[part] = make(counts[part])
    found: Pixels = torch.from_numpy(made).reshape(-1).index_select(0, places).numpy()
    return found.reshape(batch.shape)


def _auto_contrast(counts: Counts) -> Table:
    """The least value of each channel becomes 0, the largest 255."""
    least, most = (counts > 0).argmax(axis=-1), _last(counts)
    scale = 255.0 / np.maximum(1, most - least)
    stretched = np.clip((_VALUES * scale[..., None] - (least * scale)[..., None]).astype(np.int64), 0, 255)
    return np.where((most > least)[..., None], stretched, _VALUES).astype(np.uint8)


def _equalize(counts: Counts) -> Table:
    """Every value becomes about as frequent as any other."""
    last = np.take_along_axis(counts, _last(counts)[..., None], axis=-1)
    step = (counts.sum(axis=-1, keepdims=True) - last) // 255  # 0 where there are too few other values to tell apart
    before = np.cumsum(counts, axis=-1) - counts
    spread = np.minimum(255, (step // 2 + before) // np.maximum(1, step))
    return np.where(step > 0, spread, _VALUES).astype(np.uint8)


def _last(counts: Counts) -> NDArray[np.int64]:
    """The largest value that comes."""
    return np.asarray(255 - (counts[..., ::-1] > 0).argmax(axis=-1))


_GEOMETRY = (
    Kind(
        _by_matrix,
        {
            "rotate": _rotation,
            "shear-x": lambda slope, _: (1.0, slope, 0.0, 0.0, 1.0, 0.0),
            "shear-y": lambda slope, _: (1.0, 0.0, 0.0, slope, 1.0, 0.0),
        },
    ),
    Kind(
        _each,
        {
            "translate-x": lambda pixels, by: _moved(pixels, by, 0),
            "translate-y": lambda pixels, by: _moved(pixels, 0, by),
            "slide-x": lambda pixels, part: _moved(pixels, part * pixels.shape[1], 0),
            "slide-y": lambda pixels, part: _moved(pixels, 0, part * len(pixels)),
        },
    ),
)
_BLENDS = {"brightness": torch.zeros_like, "contrast": _mean_grey, "sharpness": _smooth}
_TONE = (
    Kind(_by_table, {"posterize": _posterize, "solarize": _solarize}),
    Kind(_by_counts, {"auto-contrast": _auto_contrast, "equalize": _equalize}),
    Kind(_each, {"blur": _by_pillow(lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)))}),
)
_COLOUR = Kind(_each, {"grey": _by_pillow(lambda image, _: image.convert("L").convert("RGB"))})
_KINDS = {  # by channels
    1: (*_GEOMETRY, *_TONE, Kind(_by_blend, _BLENDS)),
    3: (*_GEOMETRY, *_TONE, Kind(_by_blend, {**_BLENDS, "saturation": _grey}), _COLOUR),
}
