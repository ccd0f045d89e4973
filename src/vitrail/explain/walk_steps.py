"""The steps from the picture to the tokens, the later blocks in brief, and the order of all steps.

N patches or tokens, P and Q patch height and width, C channels, D width, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vitrail.data.prepare import normalise
from vitrail.explain.walk_answer import answer_steps
from vitrail.explain.walk_block import block_steps, over_patches
from vitrail.explain.walk_parts import (
    Array,
    Exhibit,
    HeatMaps,
    Numbers,
    Picture,
    Pixels,
    Step,
    Sum,
    factor,
    number,
    shape_text,
    terms,
)
from vitrail.explain.walk_scene import Scene, displayable, numpy

BLOCKS_SHOWN = 12

PART = "From picture to tokens"


def all_steps(scene: Scene) -> Iterator[Step]:
    """Every step this model takes with this picture, in its own order."""
    c = scene.config
    yield picture(scene)
    yield cut_into_patches(scene)
    yield flatten(scene)
    yield project(scene)
    if c.prefix_tokens:
        yield put_in_front(scene)
    yield positions(scene)
    yield from block_steps(scene)
    if c.depth > 1:
        yield other_blocks(scene)
    yield from answer_steps(scene)


# ---- picture to tokens --------------------------------------------------------------------------------------------


def picture(scene: Scene) -> Step:
    height, width, channels = scene.pixels.shape
    mean, std = (", ".join(f"{value:g}" for value in values) for values in (scene.rule.mean, scene.rule.std))
    kind = {1: "one grey value", 3: "a red, a green and a blue value"}.get(channels, f"{channels} values")
    words = f"A picture is a table of numbers: {height} rows of {width} pixels, each with {kind} from 0 to 255. "
    if channels not in (1, 3):
        words += f"Only {'the first three channels are' if channels > 3 else 'the first channel is'} drawn here. "
    x, raw = normalise(scene.pixels[None], scene.rule)[0, 0], scene.pixels[..., 0]
    line = f"{raw.min()} becomes {number(float(x.min()))}, {raw.max()} becomes {number(float(x.max()))}"
    return Step(
        PART,
        "The picture",
        r"x = \frac{pixels / 255 - mean}{std}",
        f"{words}The model is given them centred and scaled, with mean {mean} and std {std}.",
        shape_text(height, width, channels),
        "height × width × channels",
        (
            Picture("what the model sees", displayable(scene.pixels)),
            Sum("the darkest and the lightest value" + ("" if channels == 1 else ", first channel"), line),
        ),
    )


def cut_into_patches(scene: Scene) -> Step:
    (rows, columns), (p, q) = scene.grid, scene.config.patch_size
    place = f"row {scene.followed // columns + 1}, column {scene.followed % columns + 1}"
    reason = "the class token will look at it most" if scene.config.class_token else "it has the most contrast"
    words = (
        f"The picture is cut into {rows} × {columns} = {scene.patches} patches of {p} × {q} pixels. They are the words "
        f"of the sentence that the Transformer will read. We follow patch {scene.followed + 1} ({place}): {reason}."
    )
    if scene.config.stem != "none":
        kind = {"conv": "small convolutional", "resnet": "ResNetV2"}[scene.config.stem]
        words += (
            f" In this model a {kind} stem comes first: it turns the pixels into a smaller picture of features, and "
            "that picture is what is cut. Each patch of features still stands for the pixels shown here, but has seen "
            "its neighbours too."
        )
    return Step(
        PART,
        "Cut into patches",
        r"N = \frac{H}{P} \times \frac{W}{P}" if p == q else r"N = \frac{H}{P} \times \frac{W}{Q}",
        words,
        shape_text(rows, columns, p, q, scene.config.channels),
        "rows × columns of patches, each height × width × channels",
        (Picture("cut; the marked patch is followed", displayable(scene.pixels), (p, q), scene.followed),),
    )


def flatten(scene: Scene) -> Step:
    patches, (p, q), channels = scene.value("patches"), scene.config.patch_size, scene.config.channels
    vector = patches[scene.followed]
    grid = vector.reshape(p, q, channels)[..., 0]
    which = "" if channels == 1 else ", first channel"
    lines = tuple(f"row {i + 1}" for i in range(p))
    return Step(
        PART,
        "Flatten",
        r"x_p \in \R^{N \times (P^2 C)}" if p == q else r"x_p \in \R^{N \times (P Q C)}",
        f"Each patch is read row by row, pixel by pixel, into one long vector of {p} × {q} × {channels} = "
        f"{len(vector)} numbers. Inside a patch the model no longer knows what is above and what is beside; it has to "
        "learn that.",
        shape_text(*patches.shape),
        "patches × numbers in a patch",
        (
            Picture(f"patch {scene.followed + 1}", displayable(_patch_pixels(scene))),
            Numbers(f"patch {scene.followed + 1} as numbers{which}", grid, lines),
            Numbers("all patches, flattened", patches, scene.patch_names, keep=(scene.followed,)),
        ),
    )


def _patch_pixels(scene: Scene) -> Pixels:
    (_, columns), (p, q) = scene.grid, scene.config.patch_size
    row, column = divmod(scene.followed, columns)
    return scene.pixels[row * p : (row + 1) * p, column * q : (column + 1) * q]


def project(scene: Scene) -> Step:
    c, found, (p, q) = scene.config, scene.value("embeddings"), scene.config.patch_size
    words = (
        f"One learned matrix E, the same for every patch, turns each vector into {c.dim} numbers: the embedding. Each "
        "column of E is a small pattern that is compared with the patch."
    )
    if c.stem != "none":
        words = (
            f"The stem’s features of each patch are projected by one learned matrix to {c.dim} numbers: the embedding."
        )
    if c.patch_norm:
        words += " In this model a LayerNorm comes before the projection and another after it."
    table = Numbers("the embeddings", found, scene.patch_names, keep=(scene.followed,))
    plain = c.stem == "none" and not c.patch_norm
    return Step(
        PART,
        "Project",
        r"x_p^i E + b" + "\n" + (r"E \in \R^{(P^2 C) \times D}" if p == q else r"E \in \R^{(P Q C) \times D}"),
        words,
        shape_text(*found.shape),
        "patches × width",
        (_one_embedding(scene), table) if plain else (table,),
    )


def _one_embedding(scene: Scene) -> Sum:
    """The first coordinate of the followed patch's embedding, worked out from the state dict."""
    vector, bias = scene.value("patches")[scene.followed], scene.weight("patch_embed.proj.bias")
    matrix = scene.weight("patch_embed.proj.weight")
    assert matrix is not None
    assert bias is not None
    column = matrix[0] if matrix.ndim == 2 else matrix[0].transpose(1, 2, 0).ravel()  # pixel by pixel, channels last
    line = f"{terms(vector, column)} + {factor(bias[0])} = {number(float(vector @ column + bias[0]))}"
    return Sum(f"first number of patch {scene.followed + 1}: pixels × first column of E, plus b", line)


def put_in_front(scene: Scene) -> Step:
    c, found = scene.config, scene.value("sequence")
    words, title, equation = [], [], []
    if c.class_token:
        title.append("class token")
        words.append(
            "A learned vector, the same for every picture, is put in front of the patches. It belongs to no place; it "
            "is there to gather what the whole picture shows."
        )
        equation.append("x_{class}")
    if c.distill_token:
        title.append("distillation token")
        words.append("A second one learned to say what a teacher says.")
        equation.append(r"x_{dist}")
    if c.registers:
        title.append("registers" if c.registers > 1 else "register")
        words.append(
            f"{c.registers} learned register token{'s' if c.registers > 1 else ''} give the model room for notes that "
            "would otherwise be written over patches."
        )
        equation.append(r"x_{reg}")
    front = "; ".join(equation)
    return Step(
        PART,
        " and ".join(title).capitalize() + " in front",
        rf"z = [{front}; x_p^1 E; \ldots; x_p^N E]",
        " ".join(words),
        shape_text(*found.shape),
        "tokens × width",
        (Numbers("the sequence", found, scene.token_names, keep=scene.keep),),
    )


_INSIDE = "In this model nothing is added: positions act inside attention"
_POSITION_WORDS = {
    "learned": "A learned vector for each place in the sequence is added.",
    "learned-patches": "A learned vector for its place is added to each patch; the tokens in front have no place.",
    "learned-2d": "A learned vector for the row, beside one for the column, is added to each patch.",
    "sincos-1d": "Sines and cosines of the patch’s number, at many wavelengths, are added; nothing is learned.",
    "sincos-2d": "Sines and cosines of the patch’s column and row, at many wavelengths, are added; nothing is learned.",
    "relative": f"{_INSIDE}, on the scores, by a learned vector for each offset between two patches.",
    "rotary": f"{_INSIDE}, which turns queries and keys by an angle that depends on row and column.",
    "none": "In this model nothing is added: it sees a bag of patches and cannot tell where they came from.",
}


def positions(scene: Scene) -> Step:
    c, tokens = scene.config, scene.value("tokens")
    where = added_positions(scene)
    exhibits: list[Exhibit] = [Numbers("the tokens", tokens, scene.token_names, keep=scene.keep)]
    if where is not None:
        table = Numbers("all that is added", where, scene.token_names, keep=scene.keep)
        exhibits = [_one_position(scene, where), table]
    return Step(
        PART,
        "Say where each patch is",
        r"z_0 = z + E_{pos}" if where is not None else "z_0 = z",
        "Attention does not know the order of its tokens. " + _POSITION_WORDS[c.positions],
        shape_text(*tokens.shape),
        "tokens × width",
        tuple(exhibits),
    )


def added_positions(scene: Scene) -> Array | None:
    """What the scheme adds to every token (N D), zero for tokens without a place; None: nothing is added."""
    where = scene.model.positions.embedding(scene.model.pos_embed, scene.grid)
    if where is None:
        return None
    added = numpy(where[0])
    return np.pad(added, ((scene.value("tokens").shape[0] - len(added), 0), (0, 0)))


def _one_position(scene: Scene, where: Array) -> Numbers:
    i = scene.followed_token
    rows = np.vstack([scene.value("sequence")[i], where[i], scene.value("tokens")[i]])
    return Numbers(f"{scene.token_names[i]}, number by number", rows, ("embedding", "+ position", "= token"))


# ---- the other blocks ---------------------------------------------------------------------------------------------


def other_blocks(scene: Scene) -> Step:
    depth = scene.config.depth
    chosen = np.unique(np.linspace(1, depth - 1, min(depth - 1, BLOCKS_SHOWN)).round().astype(int))
    maps = tuple(over_patches(scene, scene.value(f"block.{i}.attention")[:, 0].mean(axis=0)) for i in chosen)
    few = f", {len(chosen)} of {depth - 1} blocks" if len(chosen) < depth - 1 else ""
    out = scene.value(f"block.{depth - 1}.out")
    heat = HeatMaps(
        f"where {scene.query_name} looks, mean of the heads{few}",
        tuple(f"block {i + 1}" for i in chosen),
        maps,
        displayable(scene.pixels),
        scene.config.patch_size,
    )
    which = "Block 2 does" if depth == 2 else f"Blocks 2 to {depth} do"
    return Step(
        "Block 2 of 2" if depth == 2 else f"Blocks 2 to {depth}",
        "The same again",
        r"z_l = Block_l(z_{l-1})",
        f"{which} the same with other weights. Each token now looks at tokens that have themselves looked around.",
        shape_text(*out.shape),
        "tokens × width",
        (heat, Numbers("the tokens after the last block", out, scene.token_names, keep=scene.keep)),
    )
