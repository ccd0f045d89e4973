"""Block by block: the figures are those of a full trace, whatever the model and the size of the groups."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from oracles import randomise
from vitrail.config import Preprocessing
from vitrail.explain import internals
from vitrail.explain.distance import attention_distance, attention_entropy, patch_distances
from vitrail.explain.internals import Internals, look_at_weights, look_inside, to_dict, to_tables
from vitrail.model import Model, build, create_model
from vitrail.model.vit import ViT
from vitrail.predict.predictor import Predictor
from vitrail.weights.artefact import Artefact

SHAPE = {"image_size": (24, 16), "patch_size": (6, 4), "num_classes": 5, "dim": 16, "depth": 3, "heads": 2}


def made(**parts: Any) -> ViT:
    return randomise(ViT(**{**SHAPE, "mlp_dim": 24, **parts}))


def asked(model: Model, **parts: Any) -> Predictor:
    config = model.config
    steps = Preprocessing(config.image_size, (0.5,) * config.channels, (0.5,) * config.channels)
    return Predictor.of(Artefact(model, None, steps, **parts))


def noise(count: int, size: tuple[int, int] = (24, 16), channels: int = 3) -> list[tuple[str, np.ndarray]]:
    pixels = np.random.default_rng(0).integers(0, 256, (count, *size, channels), dtype=np.uint8)
    return [(f"{n}.png", one) for n, one in enumerate(pixels)]


def trace_of(model: ViT, pictures: list[tuple[str, np.ndarray]]) -> Any:
    pixels = torch.from_numpy(np.stack([one for _, one in pictures])).permute(0, 3, 1, 2)
    return model.trace(pixels / 127.5 - 1)


def test_the_figures_are_those_of_a_trace() -> None:
    model, pictures = made(registers=2), noise(5)
    found, trace = look_inside(asked(model), pictures), trace_of(model, pictures)
    distances = patch_distances((4, 4), (6, 4))
    assert found.pictures == 5
    for number, block in enumerate(found.blocks):
        attention, tokens = trace[f"block.{number}.attention"], trace[f"block.{number}.out"]
        norms = tokens[:, 3:].norm(dim=-1)
        np.testing.assert_allclose(block.distance, attention_distance(attention, distances).mean(0), rtol=1e-5)
        np.testing.assert_allclose(block.entropy, attention_entropy(attention).mean(0), rtol=1e-5)
        assert block.norm == pytest.approx(norms.median(dim=1).values.mean().item(), rel=1e-5)
        assert block.largest_norm == pytest.approx(norms.max().item(), rel=1e-5)
        assert all(0 < share < 1 for share in block.to_front)


@pytest.mark.parametrize("temperature", [None, 3.0])
def test_the_lens_ends_in_the_answer_and_begins_before_it(temperature: float | None) -> None:
    model, pictures = made(), noise(6)
    predictor = asked(model, temperature=temperature)
    found = look_inside(predictor, pictures)
    said = predictor.probabilities(np.stack([one for _, one in pictures]))
    assert found.blocks[-1].answer == pytest.approx(said.max(axis=1).mean(), rel=1e-5)
    assert found.blocks[-1].agreement == 1
    first = trace_of(model, pictures)["block.0.out"]
    early = (model.head(model.norm(first)[:, 0]) / (temperature or 1)).softmax(dim=1).detach().numpy()
    assert found.blocks[0].answer == pytest.approx(early[np.arange(6), said.argmax(axis=1)].mean(), rel=1e-5)
    assert found.blocks[0].agreement == pytest.approx((early.argmax(axis=1) == said.argmax(axis=1)).mean())
    assert [one.answers.label for one in found.seen] == said.argmax(axis=1)[:4].tolist()
    np.testing.assert_allclose([one.answers.probability[-1] for one in found.seen], said.max(axis=1)[:4], rtol=1e-5)
    told = to_dict(found, "abcde")["answers"]
    assert [row["label"] for row in told] == ["abcde"[k] for k in said.argmax(axis=1)[:4]]
    assert [row["after_each_block"][-1]["label"] for row in told] == [row["label"] for row in told]


def test_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, pictures = asked(made()), noise(7)
    together = look_inside(predictor, pictures)
    monkeypatch.setattr(internals, "GROUP_BYTES", 1)
    one_by_one = look_inside(predictor, iter(pictures))
    assert _close(one_by_one, together)


def _close(a: Internals, b: Internals) -> bool:
    return all(
        np.allclose(left[1:], right[1:], rtol=1e-5)
        for name in ("attention", "tokens")
        for left, right in zip(to_tables(a)[name][1:], to_tables(b)[name][1:], strict=True)
    )


def test_no_more_pictures_are_read_than_are_used() -> None:
    endless = ((str(n), noise(1)[0][1]) for n in range(10**9))
    assert look_inside(asked(made(depth=1)), endless).pictures == internals.MOST_PICTURES


VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {"pool": "mean"},
    "attention pool": {"pool": "attention"},
    "both": {"pool": "cls+mean"},
    "distilled": {"pool": "cls+distill"},
    "several layers": {"read_layers": (2, 3)},
    "no head": {"num_classes": 0},
    "post-norm": {"norm": "post"},
    "conv stem": {"stem": "conv", "patch_size": (8, 8)},
    "hybrid": {"stem": "resnet", "stem_blocks": (1,), "image_size": 32, "patch_size": 8},
    "vit-pytorch": {"patches": "linear", "patch_norm": True},
    "five channels": {"channels": 5},
    "one patch": {"image_size": (6, 4)},
    "a row": {"image_size": (6, 16)},
    "tanh": {"head": "tanh"},
    **{scheme: {"positions": scheme} for scheme in ("none", "relative", "rotary", "sincos-2d")},
}


@pytest.mark.parametrize("parts", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_model(parts: dict[str, Any]) -> None:
    model = made(**parts)
    found = look_inside(asked(model), noise(2, model.config.image_size, model.config.channels))
    json.dumps(to_dict(found, "abcde"), allow_nan=False)
    assert len(found.blocks) == 3
    assert (found.filters is None) == any("no embedding filters" in note for note in found.notes)
    assert (found.positions is None) == any("no position embedding" in note for note in found.notes)
    assert (found.blocks[0].answer is None) == any("no logit lens" in note for note in found.notes)
    tables = to_tables(found)
    assert len(tables["attention"]) == 1 + 3 * 2
    assert {len(row) for row in tables["tokens"]} == {7}


def test_several_labels_have_probabilities_of_their_own() -> None:
    predictor = asked(made(), multi_label=True)
    found, said = look_inside(predictor, noise(3)), predictor.probabilities(np.stack([one for _, one in noise(3)]))
    assert found.blocks[-1].answer == pytest.approx(said.max(axis=1).mean(), rel=1e-5)


def test_another_size_at_run_time() -> None:
    model = made(any_size=True)
    found = look_inside(asked(model), noise(2, (36, 24)))
    assert found.seen[0].norms.shape == (6, 6)


def test_without_pictures_it_says_what_to_give() -> None:
    found = look_inside(asked(made()))
    assert found.blocks == ()
    assert "--images" in found.notes[-1]
    assert found.positions is not None


def test_a_model_that_merges_patches_is_told() -> None:
    model = build(made().config.replace(merge=2))
    found = look_inside(asked(model), noise(2))
    assert found.filters is not None
    assert found.blocks == ()
    assert "merges patches" in found.notes[-1]


def test_a_resnet_is_told_not_crashed() -> None:
    model = create_model("R18", image_size=32, num_classes=3)
    assert "ResNet has no patches" in look_at_weights(model).notes[0]
    assert look_inside(asked(model), noise(1, (32, 32))).blocks == ()


def test_the_model_is_given_back_as_it_was() -> None:
    model = made(dropout=0.5).train()
    first, second = (to_dict(look_inside(asked(model), noise(2)), "abcde") for _ in range(2))
    assert first == second
    assert model.training
