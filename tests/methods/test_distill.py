"""The loss of a teacher, by its formulas; with mixing, patch dropout, and a token of its own."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from oracles import randomise
from vitrail import create_model
from vitrail.data.loader import Batch
from vitrail.data.mixing import Mixing
from vitrail.errors import ConfigError
from vitrail.methods.distill import Distillation, Distilled, Teacher
from vitrail.methods.supervised import Regularisation, Supervised

CLASSES = 4
GENERATOR = torch.Generator().manual_seed(0)
ANSWERS = torch.randn(6, CLASSES, generator=GENERATOR) * 3


class ByIndex(Teacher):
    def __call__(self, batch):
        return ANSWERS[batch.indices]


def batch():
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return Batch(images, torch.tensor([0, 1, 2, 3, 0, 1]), torch.arange(6).flip(0))


def student(pool="cls", **words):
    return randomise(create_model("Ti/16", image_size=32, depth=2, num_classes=CLASSES, pool=pool, **words))


def method(model, kind="soft", alpha=0.5, temperature=2.0, weights=None, **regular):
    how = Distillation("teacher", kind, alpha=alpha, temperature=temperature)
    return Distilled(model, CLASSES, Regularisation(**regular), 0, weights, ByIndex(), how)


def test_soft_is_the_divergence_at_a_temperature():
    model, given = student(), batch()
    with torch.no_grad():
        ours, theirs = model(given.images), ANSWERS[given.indices]
        p, q = (theirs / 2).softmax(1), (ours / 2).softmax(1)
        divergence = (p * (p / q).log()).sum(1).mean()
        expected = 0.7 * F.cross_entropy(ours, given.targets) + 0.3 * 4 * divergence
        torch.testing.assert_close(method(model, alpha=0.3)(given, 0, 0, 1.0), expected)


def test_hard_is_cross_entropy_with_the_class_that_the_teacher_names():
    model, given = student(), batch()
    with torch.no_grad():
        ours, named = model(given.images), ANSWERS[given.indices].argmax(1)
        expected = 0.5 * F.cross_entropy(ours, given.targets) + 0.5 * F.cross_entropy(ours, named)
        torch.testing.assert_close(method(model, "hard")(given, 0, 0, 1.0), expected)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alpha_zero_is_supervised_learning(kind):
    model, given = student(), batch()
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    plain = Supervised(model, CLASSES, Regularisation(label_smoothing=0.1), 0, weights)
    with torch.no_grad():
        found = method(model, kind, 0.0, weights=weights, label_smoothing=0.1)(given, 0, 0, 1.0)
        torch.testing.assert_close(found, plain(given, 0, 0, 1.0))


def test_mixed_pictures_have_mixed_answers():
    model, given = student(), batch()
    hot = F.one_hot(given.targets, CLASSES).float()
    named = F.one_hot(ANSWERS[given.indices].argmax(1), CLASSES).float()
    mixing = Mixing(mixup=0.5)
    images, labels = mixing(given.images, hot, 0, 3, 5)
    _, taught = mixing(given.images, named, 0, 3, 5)
    with torch.no_grad():
        ours = model(images)
        expected = 0.5 * F.cross_entropy(ours, labels) + 0.5 * F.cross_entropy(ours, taught)
        torch.testing.assert_close(method(model, "hard", mixup=0.5)(given, 3, 5, 1.0), expected)


def by_token(model, images, token):
    """The answer of one of two heads: DeiT's, taken apart again."""
    tokens, layout = model.embed(images)
    encoded = model.encode(tokens, layout)[:, token]
    weight = 2 * model.head.weight.chunk(2, dim=1)[token]
    return encoded @ weight.T + model.head.bias


def test_a_token_of_its_own_learns_from_the_teacher():
    model, given = student("cls+distill"), batch()
    with torch.no_grad():
        first, second = by_token(model, given.images, 0), by_token(model, given.images, 1)
        torch.testing.assert_close(model(given.images), (first + second) / 2, atol=1e-5, rtol=1e-5)
        named = ANSWERS[given.indices].argmax(1)
        expected = 0.5 * F.cross_entropy(first, given.targets) + 0.5 * F.cross_entropy(second, named)
        torch.testing.assert_close(method(model, "hard")(given, 0, 0, 1.0), expected, atol=1e-5, rtol=1e-5)


def test_the_token_is_taken_apart_in_every_layer_that_is_read():
    model, given = student("cls+distill", read_layers=(1, 2)), batch()
    found = method(model, "hard")
    with torch.no_grad():
        first, second = found._both_logits(given.images, 1.0)
        torch.testing.assert_close((first + second) / 2, model(given.images), atol=1e-5, rtol=1e-5)
        features = model.features(given.images).unflatten(1, (2, 2, -1))
        features[:, :, 1] = 0
        torch.testing.assert_close(first, model.classify(2 * features.flatten(1)), atol=1e-5, rtol=1e-5)


def test_it_learns_and_drops_patches_as_without_a_teacher():
    model = student("cls+distill").train()
    loss = method(model, patch_dropout=0.5)(batch(), 0, 0, 0.0)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_teacher_is_neither_saved_nor_copied():
    found = method(student())
    assert copy.deepcopy(found).teacher is found.teacher
    assert set(found.state_dict()) == {f"model.{name}" for name in found.model.state_dict()}


@pytest.mark.parametrize("wrong", [{"kind": "warm"}, {"alpha": 1.5}, {"temperature": 0.0}])
def test_impossible_settings(wrong):
    with pytest.raises(ConfigError, match=r"distill\."):
        Distillation(**wrong)
