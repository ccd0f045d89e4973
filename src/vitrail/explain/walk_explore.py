"""What a reader of the page can explore: the attention of every block and head, small enough to travel with the page.

Weights become bytes (the square root of a share, times 255: fine where shares are small). Where there are still too
many, patches are put together in groups, first those looked at, then those that look; the page says so.

L blocks, H heads, T tokens, Q and K groups of tokens that look and that are looked at, d width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair
from vitrail.data.prepare import normalise
from vitrail.explain import lens
from vitrail.explain.listener import Listener
from vitrail.explain.methods import evaluating
from vitrail.explain.rollout import with_residual
from vitrail.explain.walk_parts import Pixels
from vitrail.explain.walk_scene import Scene, displayable

ATTENTION_BYTES, QUERY_BYTES = 1_550_000, 250_000  # of the page's 3 MB; in it a byte takes four thirds
ANSWERS = 3

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Explore:
    """Groups are squares of `look_step` or `key_step` patches a side; tokens in front stay single, and come first."""

    pixels: Pixels
    patch_size: Pair
    grid: Pair
    front: tuple[str, ...]  # names of the tokens in front
    chosen: int  # the patch that the walk follows
    look_step: int
    key_step: int
    attention: Bytes  # L H Q K: how much each looks at each
    rollout: Bytes  # L Q K: what each has gathered by the end of a block, from which patches of the picture
    queries: NDArray[np.int8]  # L H Q d', of 127ths of `query_scale`
    query_scale: NDArray[np.float32]  # L H
    dim_head: int
    answers: tuple[tuple[tuple[str, float], ...], ...]  # after each block, the most probable classes


def explore(scene: Scene) -> Explore:
    """Take the picture through the model once more, and keep what can be explored, reduced block by block."""
    c, model = scene.config, scene.model
    steps = choose_steps(c.depth, c.heads, c.prefix_tokens, scene.grid)
    gathered = _Gathered(scene, *steps)
    images = torch.from_numpy(normalise(scene.pixels[None], scene.rule)).to(next(model.parameters()))
    listener = Listener(q=gathered.hear_query, attention=gathered.hear_attention, out=gathered.hear_tokens)
    with torch.inference_mode(), evaluating(model):
        model(images, listener)
    return Explore(
        pixels=displayable(scene.pixels),
        patch_size=c.patch_size,
        grid=scene.grid,
        front=scene.token_names[: c.prefix_tokens],
        chosen=scene.followed,
        look_step=steps[0],
        key_step=steps[1],
        attention=np.stack(gathered.attention),
        rollout=np.stack(gathered.rollouts),
        queries=np.stack(gathered.queries),
        query_scale=np.stack(gathered.scales),
        dim_head=c.dim_head,
        answers=tuple(gathered.answers),
    )


def choose_steps(depth: int, heads: int, prefix: int, grid: Pair) -> Pair:
    """The finest groups, of those that look and those looked at, whose weights fit."""
    pairs = chain.from_iterable(((n, n), (n, n + 1)) for n in count(1))
    return next((look, key) for look, key in pairs if _bytes(depth, heads, prefix, grid, look, key) <= ATTENTION_BYTES)


def _bytes(depth: int, heads: int, prefix: int, grid: Pair, look: int, key: int) -> int:
    tokens = (
        prefix + groups(grid, look)[0] * groups(grid, look)[1],
        prefix + groups(grid, key)[0] * groups(grid, key)[1],
    )
    return depth * (heads + 1) * tokens[0] * tokens[1]


def groups(grid: Pair, step: int) -> Pair:
    """Rows and columns of groups; the last may be smaller."""
    return -(-grid[0] // step), -(-grid[1] // step)


def membership(grid: Pair, step: int, prefix: int) -> Tensor:
    """Which tokens (T) belong to which group: a matrix of 0 and 1, groups x T."""
    rows, columns = torch.arange(grid[0]) // step, torch.arange(grid[1]) // step
    group = (rows[:, None] * groups(grid, step)[1] + columns).flatten()
    number = torch.cat([torch.arange(prefix), prefix + group])
    return (number == torch.arange(int(number.max()) + 1)[:, None]).float()


class _Gathered:
    """What is kept of each block as it goes by."""

    def __init__(self, scene: Scene, look_step: int, key_step: int) -> None:
        self.scene, c = scene, scene.config
        device = next(scene.model.parameters()).device
        self.keys = membership(scene.grid, key_step, c.prefix_tokens).to(device)  # K T
        looks = membership(scene.grid, look_step, c.prefix_tokens).to(device)
        self.looks = looks / looks.sum(dim=1, keepdim=True)  # Q T, the mean of a group
        self.width = min(c.dim_head, max(4, QUERY_BYTES // (c.depth * c.heads * len(looks))))
        self.flow: Tensor | None = None
        self.attention: list[Bytes] = []
        self.rollouts: list[Bytes] = []
        self.queries: list[NDArray[np.int8]] = []
        self.scales: list[NDArray[np.float32]] = []
        self.answers: list[tuple[tuple[str, float], ...]] = []

    def hear_query(self, q: Tensor) -> None:
        """1 H T d."""
        shown = self.looks @ q[0, :, :, : self.width].float()  # H Q d'
        scale = shown.abs().amax(dim=(1, 2)).clamp_min(1e-12)
        self.queries.append((shown / scale[:, None, None] * 127).round().to(torch.int8).cpu().numpy())
        self.scales.append(scale.cpu().numpy())

    def hear_attention(self, weights: Tensor) -> None:
        """1 H T T."""
        self.attention.append(self._bytes(weights[0].float()))
        step = with_residual(weights.float())[0]
        self.flow = step if self.flow is None else step @ self.flow
        self.rollouts.append(self._bytes(self.flow))

    def _bytes(self, weights: Tensor) -> Bytes:
        """Shares (... T T), the sum over what is looked at and the mean over who looks, as bytes (... Q K)."""
        shares = (self.looks @ weights @ self.keys.T).clamp(0, 1)
        return (shares.sqrt() * 255).round().to(torch.uint8).cpu().numpy()

    def hear_tokens(self, tokens: Tensor) -> None:
        """1 T D."""
        if lens.why_no_lens(self.scene.model) is not None:
            return
        shares = lens.logits_after(self.scene.model, tokens)[0].float().softmax(dim=0)
        best = shares.topk(min(ANSWERS, len(shares)))
        named = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        self.answers.append(tuple((self.scene.classes[k], share) for k, share in named))
