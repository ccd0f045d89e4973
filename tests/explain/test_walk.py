"""A walk shows what the model computed: recomputed here by hand, with NumPy, from the state dict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from vitrail.config import Preprocessing
from vitrail.errors import ConfigError
from vitrail.explain.walk import walk
from vitrail.explain.walk_equations import mathml_of, text_of
from vitrail.explain.walk_parts import Bars, HeatMaps, Numbers, Picture, Step, Walk, excerpt, number
from vitrail.explain.worked_example import PREPROCESSING, worked_example
from vitrail.model.resnet import ResNet
from vitrail.model.sizes import model_config
from vitrail.model.vit import ViT

WORDS = {
    "image_size": 16,
    "patch_size": 4,
    "num_classes": 3,
    "dim": 16,
    "depth": 3,
    "heads": 2,
    "dim_head": 8,
    "mlp_dim": 24,
}


def tiny(**parts: Any) -> ViT:
    """A small model whose head is not zero, so that its answer depends on the picture."""
    torch.manual_seed(0)
    model = ViT(**{**WORDS, **parts})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def noise(*shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def step(shown: Walk, title: str) -> Step:
    (found,) = [step for step in shown.steps if step.title == title]
    return found


def table(shown: Walk, title: str, caption: str) -> np.ndarray[Any, Any]:
    (found,) = [e for e in step(shown, title).exhibits if isinstance(e, Numbers) and e.caption.startswith(caption)]
    return found.values


@pytest.fixture(scope="module")
def example() -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any], Walk]:
    """The weights as NumPy arrays, the normalised picture (16 16), and the walk."""
    model, image, classes = worked_example("cat")
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    return weights, image[..., 0] / 255.0 * 2 - 1, walk(model, image, classes, PREPROCESSING)


def layer_norm(x: Any, weights: dict[str, Any], name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
    return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def embed(weights: dict[str, Any], x: Any) -> Any:
    patches = x.reshape(4, 4, 4, 4).transpose(0, 2, 1, 3).reshape(16, 16)
    return patches @ weights["patch_embed.proj.weight"].reshape(8, 16).T + weights["patch_embed.proj.bias"]


def block(weights: dict[str, Any], i: int, z: Any) -> tuple[Any, Any]:
    """The tokens after block i, and its attention scores (2 17 17)."""
    name = f"blocks.{i}"
    qkv = (
        layer_norm(z, weights, f"{name}.norm1") @ weights[f"{name}.attn.qkv.weight"].T
        + weights[f"{name}.attn.qkv.bias"]
    )
    q, k, v = qkv.reshape(17, 3, 2, 4).transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(4)
    attention = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    heads = (attention @ v).transpose(1, 0, 2).reshape(17, 8)
    z = z + heads @ weights[f"{name}.attn.proj.weight"].T + weights[f"{name}.attn.proj.bias"]
    hidden = (
        layer_norm(z, weights, f"{name}.norm2") @ weights[f"{name}.mlp.fc1.weight"].T + weights[f"{name}.mlp.fc1.bias"]
    )
    hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return z + hidden @ weights[f"{name}.mlp.fc2.weight"].T + weights[f"{name}.mlp.fc2.bias"], scores


class TestNumbers:
    def test_patch_embeddings(self, example: Any) -> None:
        weights, x, shown = example
        np.testing.assert_allclose(table(shown, "Project", "the embeddings"), embed(weights, x), atol=1e-5)

    def test_scores_block_and_probabilities(self, example: Any) -> None:
        weights, x, shown = example
        z = np.concatenate([weights["cls_token"][0], embed(weights, x)]) + weights["pos_embed"][0]
        z, scores = block(weights, 0, z)
        np.testing.assert_allclose(table(shown, "Scores", "scores"), scores[0], atol=1e-4)
        np.testing.assert_allclose(table(shown, "Residual again", "all tokens"), z, atol=1e-4)
        z, _ = block(weights, 1, z)
        y = layer_norm(z[0], weights, "norm")
        hidden = np.maximum(weights["pre_logits.fc.weight"] @ y + weights["pre_logits.fc.bias"], 0)
        logits = weights["head.weight"] @ hidden + weights["head.bias"]
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose([dict(shown.ranking)[name] for name in ("cat", "dog")], expected, atol=1e-5)

    def test_sums_add_up(self, example: Any) -> None:
        for title, caption in [
            ("The weighted sum", "what"),
            ("Residual again", "the class"),
            ("Say where each patch is", "patch"),
        ]:
            values = table(example[2], title, caption)
            np.testing.assert_allclose(values[:-1].sum(axis=0), values[-1], atol=1e-5)

    def test_the_worked_lines_end_in_the_number_of_the_table(self, example: Any) -> None:
        shown = example[2]
        followed = step(shown, "Cut into patches").exhibits[0].marked
        line = step(shown, "Project").exhibits[0].line
        assert line.endswith(f"= {number(table(shown, 'Project', 'the embeddings')[followed, 0])}")
        score = step(shown, "Scores").exhibits[0].line
        assert score.endswith(f"= {number(table(shown, 'Scores', 'scores')[0, followed + 1])}")

    def test_they_are_those_of_the_trace(self) -> None:
        model, image = tiny(registers=2), noise(16, 16, 3)
        shown = walk(model, image, None)
        images = torch.from_numpy(image).permute(2, 0, 1)[None] / 255 * 2 - 1
        trace = model.eval().trace(images)
        np.testing.assert_allclose(table(shown, "MLP", "between"), trace["block.0.mlp_hidden"][0].numpy(), atol=1e-5)
        heat = step(shown, "The same again").exhibits[0]
        assert isinstance(heat, HeatMaps)
        mean = trace["block.2.attention"][0, :, 0, 3:].mean(dim=0).reshape(4, 4)
        np.testing.assert_allclose(heat.values[-1], mean.numpy(), atol=1e-5)
        np.testing.assert_allclose(
            sorted(dict(shown.ranking).values()), trace["logits"].softmax(1)[0].sort().values, atol=1e-5
        )


VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {"pool": "mean"},
    "mean and class token": {"pool": "mean", "class_token": True},
    "attention": {"pool": "attention"},
    "class token beside the mean": {"pool": "cls+mean"},
    "distillation token": {"pool": "cls+distill", "registers": 1},
    "several blocks": {"pool": "cls+mean", "read_layers": (1, 3)},
    "registers": {"registers": 4},
    "rectangle": {"image_size": (24, 16), "patch_size": (6, 4)},
    "grey": {"channels": 1},
    "many channels": {"channels": 5},
    "two channels": {"channels": 2},
    "post-norm": {"norm": "post"},
    "post-norm, normalised": {"norm": "post", "final_norm": "tokens"},
    "pooled norm": {"pool": "mean", "final_norm": "pooled"},
    "layer scale": {"layer_scale": 0.1},
    "qk-norm": {"qk_norm": True},
    "no bias": {"qkv_bias": False},
    "one head": {"heads": 1, "depth": 1},
    "inner width": {"heads": 3},
    "linear patches": {"patches": "linear"},
    "patch norm": {"patches": "linear", "patch_norm": True},
    "conv stem": {"stem": "conv"},
    "resnet stem": {"stem": "resnet", "stem_blocks": (1,), "image_size": 32, "patch_size": 8},
    "tanh": {"head": "tanh"},
    "relu": {"head": "relu", "head_dim": 6},
    "no head": {"num_classes": 0},
    **{scheme: {"positions": scheme} for scheme in ("learned-patches", "learned-2d", "relative", "rotary", "none")},
    **{scheme: {"positions": scheme} for scheme in ("sincos-1d", "sincos-2d")},
}


@pytest.mark.parametrize("parts", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_model_can_be_walked(parts: dict[str, Any]) -> None:
    model = tiny(**parts)
    channels, size = model.config.channels, model.config.image_size
    image = noise(*size, channels)
    shown = walk(model, image, None)
    images = torch.from_numpy(image).permute(2, 0, 1)[None] / 255 * 2 - 1
    with torch.no_grad():
        expected = model.eval()(images)
    np.testing.assert_allclose(
        table(shown, "One vector for the picture", "the features").ravel(),
        model.features(images).detach().ravel(),
        atol=1e-4,
    )
    if model.config.num_classes:
        np.testing.assert_allclose(
            [dict(shown.ranking)[f"class {k}"] for k in range(3)], expected.softmax(1)[0], atol=1e-5
        )
    else:
        assert shown.ranking == ()
        assert shown.steps[-1].title == "One vector for the picture"
    for one in shown.steps:
        assert one.words
        assert one.shape
        assert text_of(one.equation)


class TestOrder:
    def test_pre_norm_begins_with_the_norm_and_post_norm_ends_with_it(self) -> None:
        pre, post = (walk(tiny(norm=norm), noise(16, 16, 3), None) for norm in ("pre", "post"))
        titles = [[step.title for step in shown.steps] for shown in (pre, post)]
        assert "LayerNorm" in titles[0]
        assert "LayerNorm" not in titles[1]
        assert "LN(sum)" in step(post, "Residual again").exhibits[0].rows
        last = table(post, "Residual again", "the class")[-1]
        np.testing.assert_allclose(last, table(post, "Residual again", "all tokens")[0], atol=1e-5)

    def test_nothing_is_put_in_front_without_a_class_token(self) -> None:
        titles = [step.title for step in walk(tiny(pool="mean"), noise(16, 16, 3), None).steps]
        assert not any("front" in title for title in titles)

    @pytest.mark.parametrize(("scheme", "title"), [("rotary", "Queries, keys, values"), ("relative", "Scores")])
    def test_positions_inside_attention_are_told_where_they_act(self, scheme: str, title: str) -> None:
        shown = walk(tiny(positions=scheme), noise(16, 16, 3), None)
        assert "nothing is added" in step(shown, "Say where each patch is").words
        assert scheme.capitalize() in step(shown, title).words

    def test_a_stem_is_told(self) -> None:
        assert "stem comes first" in step(walk(tiny(stem="conv"), noise(16, 16, 3), None), "Cut into patches").words


def test_a_model_that_merges_patches_is_refused() -> None:
    with pytest.raises(ConfigError, match="merges patches"):
        walk(tiny(merge=2), noise(16, 16, 3), None)


class TestPicture:
    def test_is_resized_and_cut_to_the_models_size(self) -> None:
        shown = walk(tiny(), noise(40, 80, 3), None)
        assert shown.picture.pixels.shape == (16, 16, 3)

    def test_grey_and_colour_are_converted(self) -> None:
        assert walk(tiny(), noise(16, 16), None).picture.pixels.shape == (16, 16, 3)
        assert walk(tiny(channels=1), noise(16, 16, 3), None).picture.pixels.shape == (16, 16, 1)

    def test_other_channels_are_refused_with_the_remedy(self) -> None:
        with pytest.raises(ConfigError, match="4 channels, the model takes 3; give 3 channels"):
            walk(tiny(), noise(16, 16, 4), None)

    def test_only_bytes_are_pixels(self) -> None:
        with pytest.raises(ConfigError, match="uint8"):
            walk(tiny(), noise(16, 16, 3) / 255.0, None)  # type: ignore[arg-type]

    def test_preprocessing_is_heeded(self) -> None:
        rule = Preprocessing(size=(16, 16), mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
        image = noise(16, 16, 3)
        patch = table(walk(tiny(), image, None, rule), "Flatten", "all patches")
        np.testing.assert_allclose(patch[0, :3], (image[0, 0] / 255 - rule.mean) / rule.std, atol=1e-5)

    def test_preprocessing_of_other_channels_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="preprocessing has 2 channels"):
            walk(tiny(), noise(16, 16, 3), None, Preprocessing(size=(16, 16), mean=(0, 0), std=(1, 1)))

    def test_another_size_where_the_model_allows_it(self) -> None:
        rule = Preprocessing(size=(32, 24), mean=(0.5,), std=(0.5,))
        shown = walk(tiny(any_size=True), noise(50, 50, 3), None, rule)
        assert step(shown, "Say where each patch is").shape == "49 × 16"


def test_class_names_must_be_as_many_as_classes() -> None:
    with pytest.raises(ConfigError, match="2 class names for a model of 3 classes"):
        walk(tiny(), noise(16, 16, 3), ("a", "b"))


def test_a_resnet_is_refused() -> None:
    config = model_config("R18", width=32, image_size=32, num_classes=2)
    with pytest.raises(ConfigError, match="no walk through a ResNet"):
        walk(ResNet(config), noise(32, 32, 3), None)  # type: ignore[arg-type]


def test_the_model_is_given_back_as_it_was() -> None:
    model = tiny(dropout=0.5).train()
    first, second = (walk(model, noise(16, 16, 3), None).ranking for _ in range(2))
    assert model.training
    assert first == second


def test_a_large_matrix_is_shown_as_an_excerpt_that_says_so() -> None:
    values = Numbers("x", np.zeros((197, 384)), tuple(map(str, range(197))), keep=(100,))
    assert values.left_out == "excerpt of 197 × 384"
    assert values.row_picks == (0, 1, 2, 3, 4, 5, None, 100, None, 196)
    assert values.column_picks == (0, 1, 2, 3, 4, 5, None, 383)
    assert excerpt(8, 8) == tuple(range(8))


def test_only_the_largest_of_many_classes_are_shown() -> None:
    shown = walk(tiny(num_classes=40), noise(16, 16, 3), None)
    (bars,) = [e for e in shown.steps[-1].exhibits if isinstance(e, Bars)]
    assert "the 5 largest of 40" in bars.caption
    assert list(zip(bars.labels, bars.values, strict=True)) == list(shown.ranking[:5])
    assert len(shown.ranking) == 40


def test_the_followed_patch_is_what_the_class_token_looks_at_most() -> None:
    model, image, classes = worked_example("dog")
    shown = walk(model, image, classes, PREPROCESSING)
    heat = step(shown, "Softmax: who looks where").exhibits[0]
    marked = step(shown, "Cut into patches").exhibits[0]
    assert isinstance(heat, HeatMaps)
    assert isinstance(marked, Picture)
    assert marked.marked == int(np.mean(heat.values, axis=0).argmax())


@pytest.mark.parametrize(
    ("equation", "line"),
    [
        (r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}", "sᵢⱼ = qᵢ·kⱼ / √d"),
        (r"A = softmax(Q K^\top)", "A = softmax(Q Kᵀ)"),
        (r"x \in \R^{N \times (P^2 C)}", "x ∈ ℝ^{N × (P² C)}"),
        (r"z^\prime_l = z_{l-1} + MSA", "zₗ′ = zₗ₋₁ + MSA"),
    ],
)
def test_an_equation_as_a_line_of_text(equation: str, line: str) -> None:
    assert text_of(equation) == line


def test_an_equation_as_mathml() -> None:
    expected = "<msub><mrow><mi>a</mi></mrow><mrow><mn>1</mn></mrow></msub><mo>=</mo>"
    assert expected.replace("<mrow><mi>a</mi></mrow>", "<mi>a</mi>") in mathml_of(r"a_1 = \sqrt{b}")
    assert "<msqrt><mrow><mi>b</mi></mrow></msqrt>" in mathml_of(r"a_1 = \sqrt{b}")
