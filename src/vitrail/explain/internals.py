"""A model looked at from inside, in numbers: what its weights tell alone, and what pictures bring out block by block.

Pictures go through in small groups, and of every group one block's attention is held at a time: L/16 at 384 pixels
needs little more memory than its weights.

B batch, H heads, T tokens, N patches, D width, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair, ViTConfig
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.explain import lens
from vitrail.explain.distance import attention_distance, attention_entropy, attention_to_front, patch_distances
from vitrail.explain.filters import Filters, embedding_filters, why_no_filters
from vitrail.explain.listener import Listener
from vitrail.explain.methods import evaluating
from vitrail.explain.similarity import (
    Positions,
    norm_outliers,
    position_similarity,
    token_similarity,
    why_no_positions,
)
from vitrail.model import Model, ViT
from vitrail.predict.predictor import Predictor

MOST_PICTURES = 128  # as many as the paper's attention distance is the mean of
SHOWN = 4  # pictures kept to be shown one by one
GROUP_BYTES = 48 * 2**20  # of one block's attention
GROUP = 16

MERGED = "no figures block by block: this model merges patches on the way; inspect the model it was made from"
NO_PICTURES = "attention, tokens and answers block by block need pictures: give --images FILES, a FOLDER or DATA"


@dataclass(frozen=True)
class Block:
    """One block, the mean over all pictures. Of attention one figure a head; the last two are the logit lens."""

    distance: tuple[float, ...]  # pixels from a patch to what it looks at
    entropy: tuple[float, ...]  # bits
    to_front: tuple[float, ...]  # the share of attention that patches give to the class token and registers
    similarity: float | None  # mean cosine of two patches; None where there is one patch
    norm: float  # the median of the patches
    largest_norm: float  # of all patches of all pictures
    outliers: float  # the share of patches with a norm far above the median
    answer: float | None = None  # probability, after this block, of what the model says in the end
    agreement: float | None = None  # the share of pictures whose most probable class is already the last one


@dataclass(frozen=True, eq=False)
class Seen:
    """One picture as the model sees it, what it says of it after each block, and the last block's norms (R C)."""

    name: str
    pixels: Pixels
    answers: lens.Answers | None
    norms: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Internals:
    """All of it. What does not exist for this model is None or empty, and `notes` say why."""

    filters: Filters | None = None
    positions: Positions | None = None
    pictures: int = 0
    everywhere: float | None = None  # the distance in pixels of a head that looks at all patches alike
    blocks: tuple[Block, ...] = ()
    seen: tuple[Seen, ...] = ()
    notes: tuple[str, ...] = ()


def look_at_weights(model: Model) -> Internals:
    """What needs no picture."""
    if not isinstance(model, ViT):
        return Internals(notes=(f"a {type(model).__name__} has no patches, positions or attention to look at",))
    no_filters, no_positions = why_no_filters(model), why_no_positions(model)
    return Internals(
        filters=None if no_filters else embedding_filters(model),
        positions=None if no_positions else position_similarity(model),
        notes=tuple(filter(None, (no_filters, no_positions))),
    )


def look_inside(predictor: Predictor, pictures: Iterable[tuple[str, Pixels]] = ()) -> Internals:
    """Everything, from at most `MOST_PICTURES` pairs of a name and what `predictor.read` gave."""
    model = predictor.model
    still = look_at_weights(model)
    if not isinstance(model, ViT):
        return still
    if model.config.merge:
        return replace(still, notes=(*still.notes, MERGED))
    no_lens = lens.why_no_lens(model)
    watched = _Watched(predictor, with_lens=no_lens is None)
    for group in _groups(islice(pictures, MOST_PICTURES), model.config):
        watched.look(group)
    notes = (NO_PICTURES,) if not watched.pictures else (no_lens,) if no_lens else ()
    return replace(
        still,
        pictures=watched.pictures,
        everywhere=watched.everywhere,
        blocks=watched.blocks(),
        seen=tuple(watched.seen),
        notes=(*still.notes, *notes),
    )


def _groups(pictures: Iterable[tuple[str, Pixels]], config: ViTConfig) -> Iterator[list[tuple[str, Pixels]]]:
    """So many at once that a block's attention stays small."""
    left = iter(pictures)
    for first in left:
        tokens = config.prefix_tokens + _patches(grid_of(first[1], config))
        size = GROUP_BYTES // (4 * config.heads * tokens * tokens)
        yield [first, *islice(left, max(1, min(GROUP, size)) - 1)]


def grid_of(pixels: Pixels, config: ViTConfig) -> Pair:
    return pixels.shape[0] // config.patch_size[0], pixels.shape[1] // config.patch_size[1]


def _patches(grid: Pair) -> int:
    return grid[0] * grid[1]


class _Watched:
    """Sums over pictures, one group at a time."""

    def __init__(self, predictor: Predictor, *, with_lens: bool) -> None:
        assert isinstance(predictor.model, ViT)
        self.predictor, self.model, self.with_lens = predictor, predictor.model, with_lens
        self.pictures = 0
        self.everywhere: float | None = None
        self.sums: list[dict[str, Tensor]] = [{} for _ in range(self.model.config.depth)]
        self.largest = [0.0] * self.model.config.depth
        self.seen: list[Seen] = []

    def look(self, group: list[tuple[str, Pixels]]) -> None:
        pixels = np.stack([prepared for _, prepared in group])
        images = torch.from_numpy(normalise(pixels, self.predictor.preprocessing)).to(next(self.model.parameters()))
        self.grid = grid_of(pixels[0], self.model.config)
        self.distances = patch_distances(self.grid, self.model.config.patch_size).to(images.device)
        self.everywhere = self.distances.mean().item()
        self.logits: list[Tensor] = []
        attention, tokens = count(), count()  # a block is heard once of each, in order
        listener = Listener(
            attention=lambda heard: self._see_attention(next(attention), heard.float()),
            out=lambda heard: self._see_tokens(next(tokens), heard),
        )
        with torch.inference_mode(), evaluating(self.model):
            self.model(images, listener)
        self.pictures += len(group)
        found = self._answers()
        for i, (name, prepared) in enumerate(group[: SHOWN - len(self.seen)]):
            norms = self.norms[i].reshape(self.grid).cpu().numpy()
            self.seen.append(Seen(name, prepared, found[i] if found else None, norms))

    def _see_attention(self, block: int, attention: Tensor) -> None:
        self._add(block, "distance", attention_distance(attention, self.distances))
        self._add(block, "entropy", attention_entropy(attention))
        self._add(block, "to_front", attention_to_front(attention, self.model.config.prefix_tokens))

    def _see_tokens(self, block: int, tokens: Tensor) -> None:
        patches = tokens[:, self.model.config.prefix_tokens :].float()
        self.norms = torch.linalg.vector_norm(patches, dim=-1)  # B N
        self._add(block, "similarity", token_similarity(patches))
        self._add(block, "norm", self.norms.median(dim=1).values)
        self._add(block, "outliers", norm_outliers(self.norms))
        self.largest[block] = max(self.largest[block], self.norms.max().item())
        if self.with_lens:
            self.logits.append(lens.logits_after(self.model, tokens).float().cpu())

    def _answers(self) -> list[lens.Answers]:
        if not self.with_lens:
            return []
        found = lens.answers([self.predictor.decision.probabilities(logits.numpy()) for logits in self.logits])
        for block in range(len(self.sums)):
            said = torch.tensor([row.probability[block] for row in found])
            same = torch.tensor([float(row.top[block] == row.label) for row in found])
            self._add(block, "answer", said)
            self._add(block, "agreement", same)
        return found

    def _add(self, block: int, name: str, figures: Tensor) -> None:
        """Figures of B pictures (B, or B H) to the sums of one block."""
        total = figures.double().sum(dim=0).cpu()
        self.sums[block][name] = self.sums[block].get(name, torch.zeros_like(total)) + total

    def blocks(self) -> tuple[Block, ...]:
        if not self.pictures:
            return ()
        return tuple(map(self._block, self.sums, self.largest))

    def _block(self, sums: dict[str, Tensor], largest: float) -> Block:
        means: dict[str, Any] = {name: (total / self.pictures).tolist() for name, total in sums.items()}
        heads = {name: tuple(mean) for name, mean in means.items() if isinstance(mean, list)}
        alike = None if math.isnan(means["similarity"]) else means["similarity"]  # one patch is like nothing else
        return Block(**{**means, **heads, "similarity": alike}, largest_norm=largest)


# ---- ready for JSON and CSV ---------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """Over the heads of a block."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, heads: tuple[float, ...]) -> Spread:
        return cls(sum(heads) / len(heads), min(heads), max(heads))


def to_dict(found: Internals, classes: Sequence[str]) -> dict[str, Any]:
    """Ready for JSON: no numpy, no NaN. Blocks are counted from 1; `answers` are of the pictures that are shown."""
    positions, filters = found.positions, found.filters
    return {
        "filters": None if filters is None else {"variance": list(filters.variance)},
        "positions": None if positions is None else _positions_dict(positions),
        "pictures": found.pictures,
        "distance_if_looking_everywhere": found.everywhere,
        "blocks": [_block_dict(number, block) for number, block in enumerate(found.blocks, 1)],
        "answers": [_answers_dict(seen.name, seen.answers, classes) for seen in found.seen if seen.answers is not None],
        "notes": list(found.notes),
    }


def _positions_dict(positions: Positions) -> dict[str, Any]:
    return {"scheme": positions.scheme, **positions.shape._asdict(), "by_steps": list(positions.by_steps)}


def _answers_dict(name: str, answers: lens.Answers, classes: Sequence[str]) -> dict[str, Any]:
    tops = zip(answers.top, answers.top_probability, strict=True)
    return {
        "picture": name,
        "label": classes[answers.label],
        "probability": list(answers.probability),
        "after_each_block": [{"label": classes[k], "probability": share} for k, share in tops],
    }


def _block_dict(number: int, block: Block) -> dict[str, Any]:
    heads = {
        name: {**Spread.of(getattr(block, name))._asdict(), "heads": list(getattr(block, name))}
        for name in ("distance", "entropy", "to_front")
    }
    rest = ("similarity", "norm", "largest_norm", "outliers", "answer", "agreement")
    return {"block": number, **heads, **{name: getattr(block, name) for name in rest}}


def to_tables(found: Internals) -> dict[str, list[list[Any]]]:
    """Tables by name, each with a first row of headings: one file each as CSV."""
    tables: dict[str, list[list[Any]]] = {}
    if found.filters is not None:
        rows = [[n, share] for n, share in enumerate(found.filters.variance, 1)]
        tables["filters"] = [["component", "share_of_variance"], *rows]
    if found.positions is not None:
        count = len(found.positions.similarity)
        matrix = [[n, *row] for n, row in enumerate(found.positions.similarity.tolist(), 1)]
        tables["positions"] = [["patch", *range(1, count + 1)], *matrix]
    if found.blocks:
        tables["attention"] = [["block", "head", "distance_pixels", "entropy_bits", "share_to_front"]]
        names = ("similarity", "norm", "largest_norm", "outliers", "answer", "agreement")
        tables["tokens"] = [["block", *names]]
    for number, block in enumerate(found.blocks, 1):
        heads = zip(block.distance, block.entropy, block.to_front, strict=True)
        tables["attention"] += [[number, head, *figures] for head, figures in enumerate(heads, 1)]
        tables["tokens"].append([number, *(getattr(block, name) for name in names)])
    return tables
