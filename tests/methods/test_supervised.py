"""Batches to losses: the right one for one label and for several, mixed or not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from train import tiny
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.methods.supervised import Regularisation, Supervised
from vitrail.model import ResNet, build
from vitrail.model.resnet import ResNetConfig


class Fixed(nn.Module):
    """Answers the same whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.seen = nn.Parameter(logits), []

    def features(self, images):
        self.seen.append(images)
        return self.logits

    def classify(self, features):
        return features


def batch(targets, size=16):
    torch.manual_seed(0)
    return Batch(torch.randn(len(targets), 3, size, size), torch.tensor(targets), torch.arange(len(targets)))


def method(model, weights=None, **settings):
    return Supervised(model, 3, Regularisation(**settings), seed=1, weights=weights)


LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, 0.3], [-3.0, 1.0, 2.0], [0.0, 0.0, 4.0]])
ONE, SEVERAL = [0, 2, 1, 1], [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]


def test_one_label_is_cross_entropy():
    weights = torch.tensor([1.0, 2.0, 0.5])
    found = method(Fixed(LOGITS), weights, label_smoothing=0.1)(batch(ONE), 0, 0, 0.0)
    expected = F.cross_entropy(LOGITS, torch.tensor(ONE), weight=weights, label_smoothing=0.1)
    assert torch.allclose(found, expected)


def test_several_labels_are_binary_cross_entropy():
    found = method(Fixed(LOGITS))(batch(SEVERAL), 0, 0, 0.0)
    assert torch.allclose(found, F.binary_cross_entropy_with_logits(LOGITS, torch.tensor(SEVERAL).float()))


@pytest.mark.parametrize("mixed", [{"mixup": 0.5}, {"cutmix": 1.0}, {"mixup": 0.5, "cutmix": 1.0}])
@pytest.mark.parametrize("targets", [ONE, SEVERAL], ids=["one", "several"])
def test_mixed_labels_keep_their_loss(mixed, targets):
    """The labels are mixed as the pictures are; pictures of several labels stay with binary cross-entropy."""
    wanted = method(Fixed(LOGITS), **mixed)
    given = batch(targets)
    hot = given.targets.float() if given.targets.ndim == 2 else F.one_hot(given.targets, 3).float()
    images, soft = wanted.mixing(given.images, hot, 1, 2, 3)
    found = wanted(given, 2, 3, 0.0)
    assert torch.equal(wanted.model.seen[0], images)
    assert not torch.equal(images, given.images)
    loss = F.binary_cross_entropy_with_logits if given.targets.ndim == 2 else F.cross_entropy
    assert torch.allclose(found, loss(LOGITS, soft))


def test_mixing_is_a_function_of_seed_epoch_and_step():
    wanted = method(Fixed(LOGITS), mixup=0.5)
    same, other = wanted(batch(ONE), 2, 3, 0.0), wanted(batch(ONE), 2, 4, 0.0)
    assert torch.equal(wanted(batch(ONE), 2, 3, 0.9), same)
    assert not torch.equal(same, other)


def test_patches_are_dropped_until_they_come_back():
    torch.manual_seed(0)
    model = build(tiny.settings().model.replace(dropout=0.0))
    nn.init.normal_(model.head.weight)
    plain, dropped = method(model), method(model, patch_dropout=0.5, cheap_until=0.8)
    whole = plain(batch(ONE), 0, 0, 0.0)
    torch.manual_seed(1)
    few = dropped(batch(ONE), 0, 0, 0.79)
    torch.manual_seed(1)
    assert torch.equal(dropped(batch(ONE), 0, 0, 0.79), few)
    assert not torch.equal(few, whole)
    assert torch.equal(dropped(batch(ONE), 0, 0, 0.8), whole)


def test_all_patches_are_the_plain_features():
    torch.manual_seed(0)
    for parts in ({}, {"pool": "mean"}, {"pool": "cls+mean", "read_layers": (1, 2)}, {"registers": 2}):
        model = build(tiny.settings().model.replace(dropout=0.0, **{"class_token": None, **parts})).eval()
        images = torch.randn(2, 3, 16, 16)
        # in another order, which attention does not see
        assert torch.allclose(model.some_features(images, 1.0), model.features(images), atol=1e-5), parts


def test_small_images_are_whole_patches():
    model = build(tiny.settings().model.replace(image_size=32, any_size=True, dropout=0.0))
    sizes = []
    model.patch_embed.register_forward_hook(lambda _, images, __: sizes.append(tuple(images[0].shape[-2:])))
    wanted = method(model, small_images=0.6, cheap_until=0.5)
    wanted(batch(ONE, size=32), 0, 0, 0.0)
    wanted(batch(ONE, size=32), 0, 0, 0.6)
    assert sizes == [(16, 16), (32, 32)]


def test_other_models_learn_too():
    model = ResNet(ResNetConfig(image_size=16, num_classes=3, blocks=(1,), bottleneck=False, width=32, stem="small"))
    loss = method(model, patch_dropout=0.5, mixup=0.2, small_images=0.5)(batch(ONE), 0, 0, 0.0)
    loss.backward()
    assert torch.isfinite(loss)


def test_class_weights_are_no_part_of_the_weights():
    assert "class_weights" not in method(Fixed(LOGITS), torch.ones(3)).state_dict()


@pytest.mark.parametrize(
    "wrong", [{"label_smoothing": 1.0}, {"patch_dropout": -0.1}, {"small_images": 0.0}, {"mixup": -1.0}]
)
def test_values_that_cannot_work(wrong):
    with pytest.raises(ConfigError):
        method(Fixed(LOGITS), **wrong)
