"""Whether a map can be trusted: does the answer really come from where the map is hot?

**Insertion and deletion** (Petsiuk et al., 2018). Patches are put into the blurred picture from the hottest on, and the
class's probability should rise early; or they are blurred away from the hottest on, and it should fall early. The score
is the area under the first curve less the area under the second, as a share of the whole picture's probability.

A map is taken as the eye takes it, smoothed: patches beside a hot one come before cold ones elsewhere.

**Against chance.** An order and its reverse have opposite scores, so a random map scores as often above 0 as below,
and each one tried stands for two. `chance` is how likely a random map is to do as well as this one: with n tried, of
which k are as far from 0, it is (k + 1) / (n + 1) / 2. A map is better than random where that is under `CHANCE` and the
score at least `LEAST`: a model that hardly cares what it is shown has no place that its answer comes from. Among few
random maps, some may do as well as a good map by luck; so `FEW` are tried, and `MANY` where some of them do as well.

**Against other weights** (Adebayo et al., 2018). The same method on the same model with all its weights shuffled should
give another map. `same_when_shuffled` is the rank correlation of the two.

B batch, K classes, M maps, N patches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair
from vitrail.explain.masking import answers, grid_of, without_detail
from vitrail.model import Model

# Shares of the patches, the same from either end and close there: of a small object, a good map shows all at 1/8, where
# many a random one shows it at 1/4.
SHOWN = np.array([0, 1 / 16, 1 / 8, 1 / 4, 3 / 4, 7 / 8, 15 / 16, 1])
FEW, MANY = 20, 64  # random maps
CHANCE, LEAST = 0.05, 0.2
SAME = 0.5  # rank correlation from which a map hardly depends on the weights

Floats = NDArray[Any]
Probabilities = Callable[[Floats], Floats]  # logits N x K to probabilities N x K


@dataclass(frozen=True)
class Trust:
    """How far a map can be trusted; areas are shares of the whole picture's probability."""

    insertion: float
    deletion: float
    chance: float  # that a random map does as well
    same_when_shuffled: float | None = None

    @property
    def score(self) -> float:
        return self.insertion - self.deletion

    @property
    def better_than_random(self) -> bool:
        return self.chance < CHANCE and self.score >= LEAST

    @property
    def words(self) -> str:
        said = "better than random" if self.better_than_random else "no better than random"
        hardly = self.same_when_shuffled is not None and self.same_when_shuffled >= SAME
        return said + (", and hardly depends on the weights" if hardly else "")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "verdict": self.words,
            "better_than_random": self.better_than_random,
            "score": self.score,
            **asdict(self),
        }


class Judge:
    """Tries maps of one picture (1 C height width) for one class. Random maps are tried once, for all of them."""

    def __init__(self, model: Model, images: Tensor, target: int, probabilities: Probabilities, seed: int = 0) -> None:
        self.model, self.target, self.probabilities = model, target, probabilities
        self.grid = grid_of(model, images)
        self.image, self.blurred = images[0], without_detail(images, self.grid)[0]
        ends = self._probability(torch.stack([torch.zeros(self.grid), torch.ones(self.grid)]))
        self.none, self.whole = ends[0], max(ends[1], 1e-12)
        self.random = random_maps(self.grid, MANY, seed)
        self.by_chance = np.zeros(0)  # how far from 0 those that were tried score

    def trust(self, heat: Floats, shuffled: Floats | None = None) -> Trust:
        """Of a map (rows x columns); `shuffled` is the same method's with shuffled weights."""
        insertion, deletion = (float(area[0]) for area in self._areas(heat[None]))
        same = None if shuffled is None else rank_correlation(heat, shuffled)
        chance = self._chance(insertion - deletion) if np.ptp(heat) > 0 else 1.0  # a flat map points nowhere
        return Trust(insertion, deletion, chance, same)

    def _chance(self, score: float) -> float:
        tried, far = FEW, self._as_far(score, FEW)
        if score >= LEAST and far and _tail(far, MANY) < CHANCE:
            tried, far = MANY, self._as_far(score, MANY)
        return _tail(far, tried) if score > 0 else 1 - _tail(far, tried)

    def _as_far(self, score: float, count: int) -> int:
        """Of the first `count` random maps, those that score as far from 0."""
        if (more := self.random[len(self.by_chance) : count]).size:
            self.by_chance = np.append(self.by_chance, abs(np.subtract(*self._areas(more))))
        return int((self.by_chance[:count] >= abs(score)).sum())

    def _areas(self, maps: Floats) -> tuple[Floats, Floats]:
        """Of maps (M rows columns), under the curves of insertion (M) and under those of deletion (M)."""
        shown = torch.stack([first_patches(heat) for heat in maps]).flatten(0, 1)
        # A part may speak for the class more clearly than the whole; more than all is not counted.
        found = np.minimum(self._probability(torch.cat([shown, 1 - shown])) / self.whole, 1)
        inserted, deleted = found.reshape(2, len(maps), -1)
        none, whole = np.full((len(maps), 1), min(self.none / self.whole, 1)), np.ones((len(maps), 1))
        return _area(np.hstack([none, inserted, whole])), _area(np.hstack([whole, deleted, none]))

    def _probability(self, shown: Tensor) -> Floats:
        logits = answers(self.model, self.image, self.blurred, shown).float().cpu().numpy()
        return self.probabilities(logits)[:, self.target]


def _tail(far: int, tried: int) -> float:
    return (1 + far) / (1 + tried) / 2


def _area(curves: Floats) -> Floats:
    return (curves[:, 1:] + curves[:, :-1]) / 2 @ np.diff(SHOWN)


def first_patches(heat: Floats) -> Tensor:
    """The hottest patches of a map, by each share of `SHOWN` but none and all: ones there (shares rows columns)."""
    order = np.argsort(-smoothed(heat).ravel(), kind="stable")
    shown = np.zeros((len(SHOWN) - 2, heat.size), np.float32)
    for mask, share in zip(shown, SHOWN[1:-1], strict=True):
        mask[order[: round(heat.size * share)]] = 1
    return torch.from_numpy(shown).unflatten(1, heat.shape)


def smoothed(heat: Floats) -> Floats:
    """A map (rows x columns) with each cell the mean of its surroundings, near ones counting most: 1 4 6 4 1 a side."""
    for axis in (0, 1):
        for _ in range(2):
            before, after = (np.take(heat, _beside(heat.shape[axis], step), axis) for step in (-1, 1))
            heat = (before + 2 * heat + after) / 4
    return heat


def _beside(side: int, step: int) -> NDArray[np.int64]:
    return np.clip(np.arange(side) + step, 0, side - 1)


def random_maps(grid: Pair, count: int, seed: int) -> Floats:
    """Maps of noise (M rows columns), which are smoothed as any map is."""
    return np.random.default_rng(seed).random((count, *grid))


def shuffled_weights(model: Model, seed: int = 0) -> Model:
    """The model with the numbers of every weight in another order: of the same scale, but knowing nothing."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order.to(parameter.device)].view_as(parameter))
    return other


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's, from -1 to 1; 0 where a map is flat."""
    ranks = [np.argsort(np.argsort(heat.ravel(), kind="stable")).astype(float) for heat in (one, other)]
    if one.size < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
