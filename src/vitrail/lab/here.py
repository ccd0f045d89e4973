"""A training step of this machine, predicted from its parts and then measured.

The parts are timed apart at the model's own shapes: every matrix product forward and backward, attention, norms and
activations, the optimiser. Time is the processor's, on one thread, so that other work here hardly matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import ViTConfig
from vitrail.errors import ConfigError
from vitrail.lab.scale import count_work
from vitrail.model import build
from vitrail.model.sizes import model_config

ROUNDS = 7
BATCH = 8
GEMM = 768  # side of the square product that stands for the peak


class Here(NamedTuple):
    """Seconds of one step, predicted and measured, and the speed of plain matrix products."""

    model: str
    batch: int
    gemm_gflops: float
    parts: dict[str, float]
    predicted: float
    measured: float
    utilisation: float

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    def lines(self) -> list[str]:
        parts = ", ".join(f"{name} {1e3 * seconds:,.0f} ms" for name, seconds in self.parts.items())
        off = self.predicted / self.measured - 1
        return [
            f"matrix products: {self.gemm_gflops:.0f} GFLOP/s on one thread",
            f"a step of {self.model} with {self.batch} pictures, predicted: {1e3 * self.predicted:,.0f} ms ({parts})",
            f"measured: {1e3 * self.measured:,.0f} ms, so the prediction is {off:+.0%} off",
            f"the step reaches {self.utilisation:.0%} of the matrix products' speed",
        ]


def look_here(model: str, batch: int = BATCH) -> Here:
    """Predict and measure a step, on one thread."""
    config = model_config(model)
    if not isinstance(config, ViTConfig) or config.stem != "none":
        raise ConfigError(f"{model} has convolutions, whose speed is not predicted", fix="give a plain ViT: Ti/16")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        square = torch.randn(GEMM, GEMM)
        gemm = 2 * GEMM**3 / timed(lambda: square @ square)
        parts, measured = part_seconds(config, batch), step_seconds(config, batch)
    finally:
        torch.set_num_threads(threads)
    work = 6.0 * count_work(config)[1] * batch
    return Here(model, batch, gemm / 1e9, parts, sum(parts.values()), measured, work / measured / gemm)


def timed(call: Callable[[], object]) -> float:
    """The median of some calls, in seconds of the processor."""
    call()
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return median(found)


def part_seconds(config: ViTConfig, batch: int) -> dict[str, float]:
    """Forward and backward of everything that a step does, by kind."""
    patches = config.grid[0] * config.grid[1]
    rows, inner = batch * (patches + config.prefix_tokens), config.heads * config.dim_head
    dim, mlp, depth = config.dim, config.mlp_dim, config.depth
    pixels = config.patch_size[0] * config.patch_size[1] * config.channels
    products = [(dim, 3 * inner), (inner, dim), (dim, mlp), (mlp, dim)]
    block = sum(_both_ways(nn.Linear(*shape), rows, shape[0]) for shape in products)
    embed = _both_ways(nn.Linear(pixels, dim), batch * patches, pixels)
    beside = 2 * _both_ways(nn.LayerNorm(dim), rows, dim) + _both_ways(nn.GELU(), rows, mlp)
    beside += 2 * _both_ways(_Twice(), rows, dim)
    parameters, _ = count_work(config)
    return {
        "matrix products": depth * block + embed,
        "attention": depth * _attention(config, batch),
        "norms and activations": depth * beside,
        "optimiser": _optimiser(parameters),
    }


def step_seconds(config: ViTConfig, batch: int) -> float:
    """A whole step of AdamW on random pictures."""
    model = build(config).train()
    optimizer = torch.optim.AdamW(model.parameters())
    images = torch.randn(batch, config.channels, *config.image_size)
    targets = torch.zeros(batch, dtype=torch.int64)

    def step() -> None:
        F.cross_entropy(model(images), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return timed(step)


class _Twice(nn.Module):
    """A residual sum: one read, one sum, one write."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x


def _both_ways(module: nn.Module, rows: int, width: int) -> float:
    x = torch.randn(rows, width, requires_grad=True)
    slope = torch.randn_like(module(x))
    learnt = (x, *module.parameters())
    return timed(lambda: torch.autograd.grad(module(x), learnt, slope))


def _attention(config: ViTConfig, batch: int) -> float:
    tokens = config.grid[0] * config.grid[1] + config.prefix_tokens
    shape = (batch, config.heads, tokens, config.dim_head)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    slope = torch.randn(shape)
    return timed(lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), slope))


def _optimiser(parameters: int) -> float:
    weights = torch.zeros(parameters, requires_grad=True)
    weights.grad = torch.zeros(parameters)
    optimizer = torch.optim.AdamW([weights])
    return timed(optimizer.step)
