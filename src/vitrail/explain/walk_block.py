"""The steps inside the first block: attention and MLP, each with its residual, in pre-norm or post-norm order.

N tokens, D width, H heads, d width per head, M width of the MLP.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vitrail.explain.walk_parts import (
    Array,
    Exhibit,
    HeatMaps,
    Numbers,
    Relation,
    Step,
    Sum,
    number,
    percent,
    shape_text,
    terms,
)
from vitrail.explain.walk_scene import Scene, displayable

HEADS_SHOWN = 8
RELATION_TOKENS = 40  # more tokens than this make squares too small to see


def block_steps(scene: Scene) -> Iterator[Step]:
    if scene.config.norm == "pre":
        yield layer_norm(scene)
    yield queries_keys_values(scene)
    yield scores(scene)
    yield softmax(scene)
    yield weighted_sum(scene)
    yield join_heads(scene)
    yield first_residual(scene)
    yield mlp(scene)
    yield second_residual(scene)


def _part(scene: Scene) -> str:
    return "The only block" if scene.config.depth == 1 else f"Block 1 of {scene.config.depth}"


def _tokens_table(scene: Scene, caption: str, values: Array) -> Numbers:
    return Numbers(caption, values, scene.token_names, keep=scene.keep)


def layer_norm(scene: Scene) -> Step:
    tokens = scene.value("tokens")
    normed, row = scene.norm("blocks.0.norm1", tokens), tokens[scene.query]
    line = f"mean {number(row.mean())}, standard deviation {number(row.std())}: subtract, divide, then scale and shift"
    return Step(
        _part(scene),
        "LayerNorm",
        r"LN(z) = \frac{z - \mu}{\sigma} \odot \gamma + \beta",
        "Each token for itself is brought to mean 0 and standard deviation 1, and then scaled by γ and shifted by β, "
        "which are learned. The size of the numbers can no longer run away, however deep the model is.",
        shape_text(*normed.shape),
        "tokens × width",
        (Sum(scene.query_name, line), _tokens_table(scene, "all tokens, normalised", normed)),
    )


def queries_keys_values(scene: Scene) -> Step:
    c = scene.config
    words = (
        "Each token is multiplied by three learned matrices. The query says what the token is looking for, the key "
        "what it offers to others, the value what it hands over when it is found."
    )
    if c.heads > 1:
        words += f" This happens {c.heads} times in parallel, in {c.heads} heads; the tables show head 1."
    if c.qk_norm:
        words += " Queries and keys are normalised before they meet (QK-norm)."
    if c.positions == "rotary":
        words += (
            " Rotary positions act here: queries and keys of patches are turned by an angle that grows with their row "
            "and column, so that their product depends on how far apart two patches are."
        )
    given = "z" if c.norm == "post" else "LN(z)"
    tables = [_tokens_table(scene, f"{name}, head 1", scene.value(f"block.0.{key}")[0]) for key, name in _QKV]
    return Step(
        _part(scene),
        "Queries, keys, values",
        "\n".join(f"{letter} = {given} W_{letter}" for letter in "QKV"),
        words,
        f"3 × {shape_text(*scene.value('block.0.q').shape)}",
        "q, k, v × heads × tokens × width per head",
        tuple(tables),
    )


_QKV = (("q", "queries Q"), ("k", "keys K"), ("v", "values V"))


def _key(scene: Scene) -> int:
    """The token whose score is worked out: the followed patch, or what it looks at most if it is itself the query."""
    if scene.query != scene.followed_token:
        return scene.followed_token
    return int(scene.value("block.0.attention")[0, scene.query].argmax())


def scores(scene: Scene) -> Step:
    found, c = scene.value("block.0.scores"), scene.config
    words = (
        "Every query meets every key. The more they point the same way, the larger their product. Dividing by √d keeps "
        "the scores in a range where the softmax that follows can still choose."
    )
    equation = r"s_{i j} = \frac{q_i \cdot k_j}{\sqrt{d}}"
    if c.positions == "relative":
        words += " Relative positions act here: the query also meets a learned vector r for the offset to each patch."
        equation = r"s_{i j} = \frac{q_i \cdot k_j + q_i \cdot r_{i-j}}{\sqrt{d}}"
    return Step(
        _part(scene),
        "Scores",
        equation,
        words,
        shape_text(*found.shape),
        "heads × tokens that look × tokens looked at",
        (_one_score(scene), _square_table(scene, "scores, head 1", found[0])),
    )


def _one_score(scene: Scene) -> Sum:
    i, j, d = scene.query, _key(scene), scene.config.dim_head
    q, k = scene.value("block.0.q")[0, i], scene.value("block.0.k")[0, j]
    product, score = float(q @ k), float(scene.value("block.0.scores")[0, i, j])
    line = f"({terms(q, k)}) / √{d} = {number(product)} / {number(d**0.5)} = {number(product / d**0.5)}"
    if scene.config.positions == "relative":
        line += f"; with the offset’s share {number(score)}"
    return Sum(f"query of {scene.query_name} · key of {scene.token_names[j]}, head 1", line)


def _square_table(scene: Scene, caption: str, values: Array) -> Numbers:
    names = scene.token_names
    columns = tuple(name.removeprefix("patch ").replace("register", "reg") for name in names)
    return Numbers(f"{caption}: the row looks at the column", values, names, columns, scene.keep)


def softmax(scene: Scene) -> Step:
    weights = scene.value("block.0.attention")
    return Step(
        _part(scene),
        "Softmax: who looks where",
        r"a_{i j} = \frac{e^{s_{i j}}}{\sum_m e^{s_{i m}}}",
        "The scores of one query become weights: all positive, together 100%. They are the attention. "
        f"The pictures show where {scene.query_name} looks, in each head.",
        shape_text(*weights.shape),
        "heads × tokens that look × tokens looked at",
        tuple(_softmax_exhibits(scene, weights)),
    )


def _softmax_exhibits(scene: Scene, weights: Array) -> Iterator[Exhibit]:
    c, query = scene.config, scene.query
    shown = min(c.heads, HEADS_SHOWN)
    caption = f"attention of {scene.query_name} over the patches"
    maps = tuple(over_patches(scene, weights[head, query]) for head in range(shown))
    titles = tuple(f"head {head + 1}" for head in range(shown))
    few = f", the first {shown} of {c.heads} heads" if shown < c.heads else ""
    yield HeatMaps(caption + few, titles, maps, displayable(scene.pixels), c.patch_size)
    yield _one_weight(scene)
    if weights.shape[1] <= RELATION_TOKENS:
        caption = "every token (row) looks at every token (column), head 1"
        yield Relation(caption, weights[0], scene.token_names, displayable(scene.pixels), c.patch_size)


def _one_weight(scene: Scene) -> Sum:
    i, j = scene.query, _key(scene)
    row, weight = scene.value("block.0.scores")[0, i], float(scene.value("block.0.attention")[0, i, j])
    below = " + ".join(f"e^{number(score)}" for score in row[:4])
    line = f"e^{number(row[j])} / ({below} + …) = {percent(weight)}"
    return Sum(f"how much {scene.query_name} looks at {scene.token_names[j]}, head 1", line)


def over_patches(scene: Scene, row: Array) -> Array:
    """One query's attention to all tokens (N) as a map of the patches (rows x columns)."""
    return row[scene.config.prefix_tokens :].reshape(scene.grid)


def weighted_sum(scene: Scene) -> Step:
    return Step(
        _part(scene),
        "The weighted sum",
        r"head_i = \sum_j a_{i j} v_j",
        "Each token now takes from every other token its value, as much as the weights say. What is looked at is what "
        "is carried over. This is the only place where tokens learn of each other.",
        shape_text(*scene.value("block.0.heads").shape),
        "heads × tokens × width per head",
        (_contributions(scene, f"what {scene.query_name} gathers in head 1: weight × value"),),
    )


def _contributions(scene: Scene, caption: str) -> Numbers:
    """The three largest shares, the rest in one row, and their sum, which is the head's output."""
    weights, values = scene.value("block.0.attention")[0, scene.query], scene.value("block.0.v")[0]
    output, names = scene.value("block.0.heads")[0, scene.query], scene.token_names
    top = np.argsort(-weights, kind="stable")[:3]
    shares = weights[top, None] * values[top]
    rest = output - shares.sum(axis=0)
    labels = [f"{number(weights[j])} × {names[j]}" for j in top]
    return Numbers(caption, np.vstack([shares, rest, output]), (*labels, "+ all others", "= sum"))


def join_heads(scene: Scene) -> Step:
    c, heads = scene.config, scene.value("block.0.heads")
    joined = heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)  # N Hd
    words = "The heads’ answers are laid side by side and mixed by one more learned matrix, back to the model’s width."
    if c.layer_scale is not None:
        words += " LayerScale then multiplies each coordinate by a small learned factor."
    branch = scene.value("block.0.msa")
    return Step(
        _part(scene),
        "Heads joined and projected" if c.heads > 1 else "Projected",
        r"MSA = [head_1, \ldots, head_H] W_O + b_O",
        words,
        shape_text(*branch.shape),
        "tokens × width",
        (_tokens_table(scene, "heads side by side", joined), _tokens_table(scene, "projected", branch)),
    )


def first_residual(scene: Scene) -> Step:
    before, branch = scene.value("tokens"), scene.value("block.0.msa")
    post = scene.config.norm == "post"
    return Step(
        _part(scene),
        "Residual: add what was there",
        r"z^\prime_1 = LN(z_0 + MSA(z_0))" if post else r"z^\prime_1 = z_0 + MSA(LN(z_0))",
        "What attention found is added to what the token was before. Nothing is lost, and in training the gradient "
        "finds a straight way back." + _norm_after(scene),
        shape_text(*branch.shape),
        "tokens × width",
        (_addition(scene, "MSA", before, branch, after_attention(scene)),),
    )


def after_attention(scene: Scene) -> Array:
    """The tokens between the two halves of the first block (N D)."""
    total = scene.value("tokens") + scene.value("block.0.msa")
    return total if scene.config.norm == "pre" else scene.norm("blocks.0.norm1", total)


def _norm_after(scene: Scene) -> str:
    post = scene.config.norm == "post"
    return " In this model (post-norm) the LayerNorm comes here, after the sum." if post else ""


def _addition(scene: Scene, name: str, before: Array, branch: Array, after: Array) -> Numbers:
    """One token: what it was, what is added, the sum and, after post-norm, its LayerNorm."""
    i, post = scene.query, scene.config.norm == "post"
    rows = [before[i], branch[i], before[i] + branch[i], *([after[i]] if post else [])]
    labels = ("before", f"+ {name}", "= sum", *(["LN(sum)"] if post else []))
    return Numbers(scene.query_name, np.vstack(rows), labels)


def mlp(scene: Scene) -> Step:
    hidden, out = scene.value("block.0.mlp_hidden"), scene.value("block.0.mlp")
    post = scene.config.norm == "post"
    given = "z" if post else "LN(z)"
    first = "" if post else "The tokens are normalised again. "
    return Step(
        _part(scene),
        "MLP",
        rf"MLP = GELU({given} W_1 + b_1) W_2 + b_2",
        f"{first}Two dense layers work on each token alone: it thinks over what it has gathered. The layer between is "
        f"{hidden.shape[1]} wide; GELU lets positive numbers through and holds negative ones back.",
        f"{shape_text(*hidden.shape)}, then {shape_text(*out.shape)}",
        "tokens × width",
        (_tokens_table(scene, "between the layers, after GELU", hidden), _tokens_table(scene, "what comes out", out)),
    )


def second_residual(scene: Scene) -> Step:
    before, branch, out = after_attention(scene), scene.value("block.0.mlp"), scene.value("block.0.out")
    post = scene.config.norm == "post"
    return Step(
        _part(scene),
        "Residual again",
        r"z_1 = LN(z^\prime_1 + MLP(z^\prime_1))" if post else r"z_1 = z^\prime_1 + MLP(LN(z^\prime_1))",
        "And again the branch is added to what was there. The block ends with as many tokens as it began with."
        + _norm_after(scene),
        shape_text(*out.shape),
        "tokens × width",
        (
            _addition(scene, "MLP", before, branch, out),
            _tokens_table(scene, "all tokens, as they leave the block", out),
        ),
    )
