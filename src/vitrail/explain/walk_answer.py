"""The steps after the last block: one vector for the picture, one number for each class, probabilities.

N tokens, D width, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vitrail.explain.walk_parts import Array, Bars, Numbers, Step, Sum, factor, number, percent, shape_text, terms
from vitrail.explain.walk_scene import Scene

PART = "From tokens to an answer"
CLASSES_SHOWN = 5


def answer_steps(scene: Scene) -> Iterator[Step]:
    if scene.config.final_norm == "tokens":
        yield final_norm(scene)
    yield pool(scene)
    if scene.config.num_classes:
        yield from head_steps(scene)


def ranking(scene: Scene) -> tuple[tuple[str, float], ...]:
    """Classes with their probabilities, the largest first; empty for a model without a head."""
    if not scene.config.num_classes:
        return ()
    shares = probabilities(scene)
    return tuple((scene.classes[k], float(shares[k])) for k in np.argsort(-shares, kind="stable"))


def probabilities(scene: Scene) -> Array:
    raised = np.exp(logits(scene) - logits(scene).max())
    shares: Array = raised / raised.sum()
    return shares


def logits(scene: Scene) -> Array:
    return scene.value("logits").astype(np.float64)


def final_norm(scene: Scene) -> Step:
    found = scene.value("encoded")
    return Step(
        PART,
        "The last LayerNorm",
        r"LN(z_L)",
        "After the last block the tokens are normalised once more.",
        shape_text(*found.shape),
        "tokens × width",
        (Numbers("all tokens, normalised", found, scene.token_names, keep=scene.keep),),
    )


_POOL = {
    "cls": (
        "y = z_L^0",
        "Only the class token is read from here on. What it has gathered stands for the whole picture.",
    ),
    "mean": (r"y = \frac{1}{N} \sum_i z_L^i", "The mean of all patches stands for the whole picture."),
    "cls+mean": (
        r"y = [z_L^0, \frac{1}{N} \sum_i z_L^i]",
        "The class token and the mean of all patches, side by side, stand for the whole picture.",
    ),
    "cls+distill": (
        "y = [z_L^0, z_L^1]",
        "The class token and the distillation token, side by side, stand for the whole picture.",
    ),
    "attention": (
        "p = MSA(q, z_L)\ny = p + MLP(LN(p))",
        "One learned query q looks once more at all tokens and gathers what it needs; an MLP follows.",
    ),
}


def pool(scene: Scene) -> Step:
    c, found = scene.config, scene.value("features")
    equation, words = _POOL[c.pool]
    if c.final_norm == "pooled":
        words += " The result is normalised (LayerNorm)."
    if len(c.read_layers) > 1:
        blocks = ", ".join(map(str, c.read_layers))
        words += f" So it is done after each of the blocks {blocks}, and the results are laid side by side."
    if not c.num_classes:
        words += " This model has no head: these features are its answer."
    return Step(
        PART,
        "One vector for the picture",
        equation,
        words,
        shape_text(*found.shape),
        "width",
        (Numbers("the features", found[None], ("y",)),),
    )


def head_steps(scene: Scene) -> Iterator[Step]:
    features = scene.value("features")
    if scene.config.head == "linear":
        yield _logits_step(scene, features, "y")
    else:
        hidden = _hidden(scene, features)
        yield _hidden_step(scene, hidden)
        yield _logits_step(scene, hidden, "h")
    yield _probabilities_step(scene)


def _hidden(scene: Scene, features: Array) -> Array:
    dense = scene.linear("pre_logits.fc", features)
    return np.tanh(dense) if scene.config.head == "tanh" else np.maximum(dense, 0)


def _hidden_step(scene: Scene, hidden: Array) -> Step:
    tanh = scene.config.head == "tanh"
    how = "tanh bends every number into the range from -1 to 1" if tanh else "ReLU sets negative numbers to zero"
    dense = scene.linear("pre_logits.fc", scene.value("features"))
    name = "tanh" if tanh else "ReLU"
    return Step(
        PART,
        "The head’s hidden layer",
        f"h = {name}(y W_h + b_h)",
        f"A dense layer of {len(hidden)} numbers; then {how}.",
        shape_text(len(hidden)),
        "width of the head",
        (Numbers("before and after", np.vstack([dense, hidden]), ("y W + b", name)),),
    )


def _logits_step(scene: Scene, given: Array, symbol: str) -> Step:
    found = logits(scene)
    order = _largest(found)
    bias = scene.weight("head.bias")
    matrix = scene.weight("head.weight")
    assert bias is not None
    assert matrix is not None
    k = int(order[0])
    line = f"{terms(given, matrix[k])} + {factor(bias[k])} = {number(found[k])}"
    table = Numbers(_few("the logits", len(order), len(found)), found[order, None], _names(scene, order), ("logit",))
    return Step(
        PART,
        "One number for each class",
        rf"o_k = {symbol} \cdot w_k + b_k",
        "The last layer compares the vector with one learned pattern for each class. The larger the number, the better "
        "it fits. These numbers are the logits.",
        shape_text(len(found)),
        "classes",
        (Sum(f"for “{scene.classes[k]}”", line), table),
    )


def _probabilities_step(scene: Scene) -> Step:
    shares, found = probabilities(scene), logits(scene)
    order = _largest(shares)
    k, names = int(order[0]), _names(scene, order)
    below = " + ".join(f"e^{number(found[j])}" for j in order) + (" + …" if len(order) < len(found) else "")
    line = f"e^{number(found[k])} / ({below}) = {percent(shares[k])}"
    return Step(
        PART,
        "Probabilities",
        r"p_k = \frac{e^{o_k}}{\sum_j e^{o_j}}",
        f"Softmax once more: the logits become probabilities, together 100%. The model says: {scene.classes[k]}.",
        shape_text(len(shares)),
        "classes",
        (
            Bars(_few("what the model says", len(order), len(shares)), names, tuple(shares[order].tolist())),
            Sum(f"for “{scene.classes[k]}”", line),
        ),
    )


def _largest(values: Array) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")[:CLASSES_SHOWN]


def _names(scene: Scene, order: NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(scene.classes[int(k)] for k in order)


def _few(caption: str, shown: int, count: int) -> str:
    return caption if shown == count else f"{caption}, the {shown} largest of {count:,}"
