"""The ViT as an ONNX graph: the parts of `model/vit.py` in the same order, at one image size.

B batch, N tokens, D width, H heads, d width per head. Positions are computed here, once, for the size of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vitrail.config import Pair, ViTConfig
from vitrail.deploy.onnx_convnet import convolution, stem
from vitrail.deploy.onnx_graph import FUSED, Graph, dense, expand_batch, first, layer_norm, matmul, reshape
from vitrail.model.heads import AttentionPool, PreLogits
from vitrail.model.patches import ConvPatches, LinearPatches
from vitrail.model.positions import Layout, Relative, Rotary, offset_index, rotary_angles
from vitrail.model.vit import Attention, Block, LayerScale, PostNormBlock, ViT

FEW = "few"  # the products of `mix_for_few`
Encode = Callable[[Graph, ViT, str, Layout, tuple[int, ...]], list[str]]


def write_vit(g: Graph, model: ViT, images: str, size: Pair, encode: Encode | None = None) -> str:
    """Images (B C height width) to logits (B classes), or to features where the model has no head."""
    config = model.config
    layout = Layout((size[0] // config.patch_size[0], size[1] // config.patch_size[1]), config.prefix_tokens)
    layers = config.read_layers or (len(model.blocks),)
    encoded = (encode or encode_layers)(g, model, embed(g, model, images, layout), layout, layers)
    pooled = [layer_norm(g, pool(g, model, layer), model.fc_norm) for layer in encoded]
    return head(g, model, pooled[0] if len(pooled) == 1 else g.op("Concat", *pooled, axis=1))


def encode_layers(g: Graph, model: ViT, x: str, layout: Layout, layers: tuple[int, ...]) -> list[str]:
    """Embedded tokens (B N D) to the normalised output of these blocks."""
    encoded = []
    for i, block in enumerate(model.blocks, start=1):
        read = model.attn_pool.reads if i == len(model.blocks) else None
        x = write_block(g, cast(Block, block), x, layout, read)
        if i in layers:
            encoded.append(layer_norm(g, x, model.norm))
    return encoded


def embed(g: Graph, model: ViT, images: str, layout: Layout) -> str:
    """Equation 1. What does not depend on the picture, prefix tokens and positions, is added up beforehand."""
    config, patches = model.config, layout.grid[0] * layout.grid[1]
    x = patch_embedding(g, model.patch_embed, images, config, layout)  # B N D
    prefix = [g.weight(token) for token in (model.cls_token, model.dist_token, model.reg_token) if token is not None]
    table = None if model.pos_embed is None else torch.from_numpy(g.weight(model.pos_embed))
    where = model.positions.embedding(table, layout.grid)
    if where is not None:
        x = g.op("Add", x, g.constant(where[:, -patches:]))
    if not prefix:
        return x
    before = np.concatenate(prefix, axis=1)
    if where is not None and where.shape[1] > patches:
        before = before + where[:, :-patches].numpy()
    return g.op("Concat", expand_batch(g, g.constant(before), images, layout.prefix, config.dim), x, axis=1)


def patch_embedding(g: Graph, part: nn.Module, images: str, config: ViTConfig, layout: Layout) -> str:
    (rows, columns), (height, width) = layout.grid, config.patch_size
    if isinstance(part, ConvPatches):
        picture = images if part.backbone is None else stem(g, part.backbone, images, config, layout.grid)
        maps = convolution(g, part.proj, picture)  # B D rows columns
        return g.op("Transpose", reshape(g, maps, 0, config.dim, rows * columns), perm=[0, 2, 1])
    assert isinstance(part, LinearPatches)
    cells = reshape(g, images, 0, config.channels, rows, height, columns, width)
    cells = g.op("Transpose", cells, perm=[0, 2, 4, 3, 5, 1])
    flat = reshape(g, cells, 0, rows * columns, height * width * config.channels)
    return layer_norm(g, dense(g, layer_norm(g, flat, part.norm_pixels), part.proj), part.norm)


def write_block(g: Graph, block: Block, x: str, layout: Layout, read: int | None) -> str:
    """Equations 2 and 3, for the first `read` tokens; or the order of the original Transformer."""
    post = isinstance(block, PostNormBlock)
    inside = x if post else layer_norm(g, x, block.norm1)
    x = g.op("Add", first(g, x, read), attention(g, block, inside, layout, read))
    x = layer_norm(g, x, block.norm1) if post else x
    x = g.op("Add", x, mlp(g, block, x if post else layer_norm(g, x, block.norm2)))
    return layer_norm(g, x, block.norm2) if post else x


def mlp(g: Graph, block: Block, x: str) -> str:
    return branch_end(g, g.op("Gelu", dense(g, x, block.mlp.fc1, "fc1")), block.mlp.fc2, block.ls2, "fc2")


def attention(g: Graph, block: Block, x: str, layout: Layout, read: int | None) -> str:
    attn = block.attn
    plain = keys_as_they_are(attn) and not isinstance(attn.positions, Relative)
    if plain and read is not None and read < attn.dim_head:
        return attention_end(g, block, mix_for_few(g, attn, x, read))
    q, k, v = queries_keys_values(g, attn, x, layout, read)  # B N Hd each
    bias = position_bias(g, attn, q, layout, read)
    return attention_end(g, block, mix(g, q, k, v, attn.heads, attn.scale, bias))


def keys_as_they_are(attn: Attention) -> bool:
    """Neither normalised nor rotated."""
    return isinstance(attn.k_norm, nn.Identity) and not isinstance(attn.positions, Rotary)


def mix_for_few(g: Graph, attn: Attention, x: str, read: int) -> str:
    """What `mix` gives for the first `read` tokens of x (B N D), without a key and a value for every token.

    A score q (W_k x) is also (q W_k) x, and a mixture of values W_v x is W_v of the mixture: the weights meet few
    queries and few mixtures instead of all tokens.
    """
    heads, width = attn.heads, attn.dim_head
    queries, keys, values = (part.reshape(heads, width, -1) for part in np.split(g.weight(attn.qkv.weight), 3))
    bias = None if attn.qkv.bias is None else g.weight(attn.qkv.bias)[: heads * width] * np.float32(attn.scale)
    scaled = queries.reshape(heads * width, -1) * np.float32(attn.scale)
    q = reshape(g, matmul(g, first(g, x, read), scaled, bias, "qkv"), 0, read, heads, width)
    q = g.op("Transpose", q, perm=[0, 2, 1, 3])  # B H read d
    asked = reshape(g, g.op("MatMul", q, g.constant(keys), role=FEW), 0, heads * read, -1)  # B H*read D
    scores = g.op("MatMul", asked, g.op("Transpose", x, perm=[0, 2, 1]), role=FEW)  # B H*read N
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), x, role=FEW)  # B H*read D
    mixed = reshape(g, mixed, 0, heads, read, -1)
    mixed = g.op("MatMul", mixed, g.constant(values.transpose(0, 2, 1)), role=FEW)  # B H read d
    return reshape(g, g.op("Transpose", mixed, perm=[0, 2, 1, 3]), 0, read, heads * width)


def attention_end(g: Graph, block: Block, mixed: str) -> str:
    """The projection, and the values' bias: weights that sum to one hand it through, so it is added here at no cost."""
    attn = block.attn
    values = None if attn.qkv.bias is None else g.weight(attn.qkv.bias)[2 * attn.heads * attn.dim_head :]
    return branch_end(g, mixed, attn.proj, block.ls1, "proj", values)


def branch_end(
    g: Graph, x: str, layer: nn.Linear, scale: nn.Module, role: str, before: NDArray[np.float32] | None = None
) -> str:
    """The last linear layer of a branch, with its LayerScale and what was to be added to x `before` in its weights."""
    weight, offset = g.weight(layer.weight), g.weight(layer.bias)
    if before is not None:
        offset = offset + weight @ before
    if isinstance(scale, LayerScale):
        gamma = g.weight(scale.gamma)
        weight, offset = weight * gamma[:, None], offset * gamma
    return matmul(g, x, weight, offset, role)


def queries_keys_values(
    g: Graph, attn: Attention, x: str, layout: Layout, read: int | None, *, compare_keys: bool = False
) -> list[str]:
    """Three products instead of one that has to be taken apart, and only the biases that change an answer here.

    The values' is left to `attention_end`. The keys' adds the same to all scores of a query, which softmax takes away
    again, unless keys are normalised, rotated or compared with each other.
    """
    inner = attn.heads * attn.dim_head
    weights = np.split(g.weight(attn.qkv.weight), 3)
    biases: list[NDArray[np.float32] | None] = [None, None, None]
    if attn.qkv.bias is not None:
        cancels = keys_as_they_are(attn) and not compare_keys
        bias = g.weight(attn.qkv.bias)
        biases = [bias[:inner], None if cancels else bias[inner : 2 * inner], None]
    given = (first(g, x, read), x, x)
    q, k, v = (matmul(g, *one, "qkv") for one in zip(given, weights, biases, strict=True))
    return [turn(g, attn, q, attn.q_norm, layout, read), turn(g, attn, k, attn.k_norm, layout, None), v]


def turn(g: Graph, attn: Attention, x: str, norm: nn.Module, layout: Layout, read: int | None) -> str:
    """Queries or keys (B N Hd) as they meet in the scores: normalised and rotated, where the model does so."""
    rotary = isinstance(attn.positions, Rotary) and (read is None or read > layout.prefix)
    if isinstance(norm, nn.Identity) and not rotary:
        return x
    heads = layer_norm(g, reshape(g, x, 0, 0, attn.heads, attn.dim_head), norm)  # B N H d
    if rotary:
        heads = rotate(g, heads, attn, layout)
    return reshape(g, heads, 0, 0, attn.heads * attn.dim_head)


def rotate(g: Graph, x: str, attn: Attention, layout: Layout) -> str:
    """Coordinates i and i + d/2 are turned by the patch's angle i; prefix tokens by none."""
    angles = rotary_angles(layout.grid, attn.positions.grid, attn.dim_head)
    angles = torch.cat([torch.zeros(layout.prefix, angles.shape[1]), angles])[:, None].repeat(1, 1, 2)  # N 1 d
    halves = g.ops("Split", 2, x, axis=-1, num_outputs=2)
    swapped = g.op("Concat", g.op("Neg", halves[1]), halves[0], axis=-1)
    cos, sin = g.constant(angles.cos()), g.constant(angles.sin())
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", swapped, sin))


def position_bias(g: Graph, attn: Attention, q: str, layout: Layout, read: int | None) -> str:
    """What the relative scheme adds to the scaled scores (B H N N); '' for the others, and for prefix tokens alone."""
    if not isinstance(attn.positions, Relative):
        return ""
    g.weight(attn.positions.table)
    if read is not None and read <= layout.prefix:
        return ""
    with torch.inference_mode():
        offsets = attn.positions.offsets(layout.grid) * attn.scale  # O d
    heads = g.op("Transpose", reshape(g, q, 0, 0, attn.heads, attn.dim_head), perm=[0, 2, 1, 3])
    content = g.op("MatMul", first(g, heads, None, 2, layout.prefix), g.constant(offsets.T))  # B H N O
    index = offset_index(layout.grid)[None, None]
    picked = g.op(
        "GatherElements", content, expand_batch(g, g.constant(index), q, attn.heads, *index.shape[2:]), axis=3
    )
    pads = [0, 0, layout.prefix, layout.prefix, 0, 0, 0, 0]
    return g.op("Pad", picked, g.constant(pads))


def mix(g: Graph, q: str, k: str, v: str, heads: int, scale: float, bias: str = "") -> str:
    """softmax(q k^T scale + bias) v in each head, for B N Hd each: one operator of ONNX Runtime, or a few."""
    if g.fused:
        inputs = (q, k, v, "", "", bias) if bias else (q, k, v)
        return g.op("MultiHeadAttention", *inputs, domain=FUSED, num_heads=heads, scale=scale)
    q, k, v = (reshape(g, x, 0, 0, heads, -1) for x in (q, k, v))
    q, v = (g.op("Transpose", x, perm=[0, 2, 1, 3]) for x in (q, v))
    q = g.op("Mul", q, g.constant(np.array([scale], np.float32)))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 3, 1]))  # B H N N
    weights = g.op("Softmax", g.op("Add", scores, bias) if bias else scores, axis=-1)
    mixed = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])  # B N H d
    return reshape(g, mixed, 0, 0, -1)


def pool(g: Graph, model: ViT, x: str) -> str:
    """Encoded tokens (B N D) to one vector a picture."""
    kind, prefix = model.config.pool, model.config.prefix_tokens
    if kind == "attention":
        return attention_pool(g, cast(AttentionPool, model.attn_pool), x, model.config.dim)
    if kind == "cls+distill":
        return reshape(g, first(g, x, 2), 0, 2 * model.config.dim)
    read = []
    if "cls" in kind:
        read.append(g.op("Squeeze", first(g, x, 1), g.constant([1])))
    if "mean" in kind:
        read.append(g.op("ReduceMean", first(g, x, None, 1, prefix), g.constant([1]), keepdims=0))
    return read[0] if len(read) == 1 else g.op("Concat", *read, axis=1)


def attention_pool(g: Graph, part: AttentionPool, x: str, dim: int) -> str:
    with torch.inference_mode():
        query = part.q(part.latent)  # 1 1 D, the same for every picture
    for parameter in (part.latent, part.q.weight, part.q.bias):
        g.weight(parameter)
    k, v = g.ops("Split", 2, dense(g, x, part.kv), axis=-1, num_outputs=2)
    q = expand_batch(g, g.constant(query), x, 1, dim)
    pooled = dense(g, mix(g, q, k, v, part.heads, 1 / math.sqrt(dim // part.heads)), part.proj)
    hidden = g.op("Gelu", dense(g, layer_norm(g, pooled, part.norm), cast(nn.Linear, part.mlp.fc1)))
    total = g.op("Add", pooled, dense(g, hidden, cast(nn.Linear, part.mlp.fc2)))
    return g.op("Squeeze", total, g.constant([1]))


def head(g: Graph, model: ViT, features: str) -> str:
    if isinstance(model.pre_logits, PreLogits):
        activation = {nn.Tanh: "Tanh", nn.ReLU: "Relu"}[type(model.pre_logits.act)]
        features = g.op(activation, dense(g, features, model.pre_logits.fc))
    return dense(g, features, model.head, "head") if isinstance(model.head, nn.Linear) else features
