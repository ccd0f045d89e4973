"""A ViT that merges tokens as an ONNX graph: `model/merging.py` in the same order.

B batch, N tokens, D width, H heads, d width per head. How many tokens there are is known for every block beforehand.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from vitrail.config import Pair
from vitrail.deploy.onnx_graph import Graph, expand_batch, first, layer_norm, reshape
from vitrail.deploy.onnx_vit import attention_end, mix, mlp, queries_keys_values, write_vit
from vitrail.model.merging import merged_in
from vitrail.model.positions import Layout
from vitrail.model.vit import Block, ViT


def write_merging_vit(g: Graph, model: ViT, images: str, size: Pair) -> str:
    """Images (B C height width) to logits (B classes)."""
    return write_vit(g, model, images, size, encode)


def encode(g: Graph, model: ViT, x: str, layout: Layout, layers: tuple[int, ...]) -> list[str]:
    """Embedded tokens (B N D) to the normalised output of these blocks."""
    tokens, encoded = layout.prefix + layout.grid[0] * layout.grid[1], []
    sizes = expand_batch(g, g.constant(np.ones((1, 1, 1), np.float32)), x, tokens, 1)  # B N 1
    for i, block in enumerate(model.blocks, start=1):
        read = model.attn_pool.reads if i == len(model.blocks) else None
        count = merged_in(tokens - layout.prefix, model.config.merge) if read is None else 0
        x, sizes = merge_and_run(g, cast(Block, block), x, sizes, layout, (tokens, count, read))
        tokens -= count
        if i in layers:
            normed = layer_norm(g, x, model.norm)
            encoded.append(by_size(g, normed, sizes, layout.prefix) if "mean" in model.config.pool else normed)
    return encoded


def merge_and_run(
    g: Graph, block: Block, x: str, sizes: str, layout: Layout, counts: tuple[int, int, int | None]
) -> tuple[str, str]:
    """One block; `counts` are its tokens, those that it merges away, and those that are read of it."""
    (tokens, count, read), attn = counts, block.attn
    normed = layer_norm(g, x, block.norm1)
    q, k, v = queries_keys_values(g, attn, normed, layout, read, compare_keys=count > 0)  # B N Hd
    larger = reshape(g, g.op("Log", sizes), 0, 1, 1, tokens)
    bias = expand_batch(g, larger, x, 1, tokens if read is None else read, tokens)  # B 1 N N
    mixed = mix(g, q, k, v, attn.heads, attn.scale, bias)
    x = g.op("Add", first(g, x, read), attention_end(g, block, mixed))
    if count:
        alike = g.op("ReduceMean", reshape(g, k, 0, 0, attn.heads, attn.dim_head), g.constant([2]), keepdims=0)
        x, sizes = merge(g, x, sizes, alike, layout.prefix, count, tokens)
    return g.op("Add", x, mlp(g, block, layer_norm(g, x, block.norm2))), sizes


def merge(g: Graph, x: str, sizes: str, alike: str, prefix: int, count: int, tokens: int) -> tuple[str, str]:
    """Tokens and sizes without the `count` patches that have gone into others."""
    firsts, seconds = (tokens - prefix + 1) // 2, (tokens - prefix) // 2
    weighted = g.op("Concat", g.op("Mul", x, sizes), sizes, axis=-1)  # B N D+1
    one, other = (every_other(g, g.op("LpNormalization", alike, axis=-1, p=2), start) for start in (prefix, prefix + 1))
    likeness = g.op("MatMul", one, g.op("Transpose", other, perm=[0, 2, 1]))  # B firsts seconds
    best = g.op("ReduceMax", likeness, g.constant([2]), keepdims=0)
    order = g.ops("TopK", 2, best, g.constant([firsts]), axis=-1, sorted=1)[1]  # B firsts
    gone, kept = first(g, order, count), first(g, order, None, 1, count)
    partner = g.op("GatherElements", g.op("ArgMax", likeness, axis=2, keepdims=0), gone, axis=1)  # B count
    places = g.constant(np.arange(seconds, dtype=np.int64).reshape(1, seconds, 1))
    goes_to = g.op("Cast", g.op("Equal", places, g.op("Unsqueeze", partner, g.constant([1]))), to=1)
    hands = [every_other(g, weighted, start) for start in (prefix, prefix + 1)]
    second = g.op("Add", hands[1], g.op("MatMul", goes_to, pick(g, hands[0], gone)))
    front = [first(g, weighted, prefix)] if prefix else []
    total = g.op("Concat", *front, pick(g, hands[0], kept), second, axis=1)
    size = g.op(
        "Slice", total, g.constant([-1]), g.constant([np.iinfo(np.int64).max]), g.constant([2])
    )  # the last column
    value = g.op("Slice", total, g.constant([0]), g.constant([-1]), g.constant([2]))
    return g.op("Div", value, size), size


def every_other(g: Graph, x: str, start: int) -> str:
    """x[:, start::2]."""
    stop = np.iinfo(np.int64).max
    return g.op("Slice", x, g.constant([start]), g.constant([stop]), g.constant([1]), g.constant([2]))


def pick(g: Graph, x: str, indices: str) -> str:
    """Rows of x (B N D) by their places (B K)."""
    return g.op("GatherND", x, g.op("Unsqueeze", indices, g.constant([2])), batch_dims=1)


def by_size(g: Graph, x: str, sizes: str, prefix: int) -> str:
    """Patches scaled so that their plain mean is the mean of all that they stand for."""
    own = first(g, sizes, None, 1, prefix)
    share = g.op("Div", own, g.op("ReduceMean", own, g.constant([1]), keepdims=1))
    patches = g.op("Mul", first(g, x, None, 1, prefix), share)
    return g.op("Concat", first(g, x, prefix), patches, axis=1) if prefix else patches
