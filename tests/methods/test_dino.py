"""DINO beside a plain reference: the loss, the centre, the teacher, one step; and whether it notices a collapse."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from methods import tiny_methods
from vitrail.errors import ConfigError


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def reference_loss(made, views, temperature):
    """In NumPy, from the outputs: every pair of a teacher's and another student's view, averaged."""
    with torch.no_grad():
        student = [made.student_head(made.student.features(view)).double().numpy() for view in views]
        teacher = [made.head(made.model.features(view)).double().numpy() for view in views[:2]]
    total, pairs = 0.0, 0
    for i, heard in enumerate(teacher):
        probabilities = softmax((heard - made.centre.double().numpy()) / temperature)
        for j, said in enumerate(student):
            if i != j:
                total += -(probabilities * np.log(softmax(said / 0.1))).sum(axis=-1).mean()
                pairs += 1
    centre = 0.9 * made.centre.numpy() + 0.1 * np.concatenate(teacher).mean(axis=0)
    return total / pairs, centre


@pytest.mark.parametrize(("progress", "temperature"), [(0.0, 0.04), (0.15, 0.055), (0.6, 0.07)])
def test_loss_and_centre_are_those_of_the_reference(progress, temperature):
    made, batch = tiny_methods.method("dino").train(), tiny_methods.batch(4)
    made.centre.normal_(0, 0.1)
    expected, centre = reference_loss(made, made.views(batch, 3), temperature)
    assert made(batch, 3, 0, progress).item() == pytest.approx(expected, abs=1e-5)
    assert np.allclose(made.centre.numpy(), centre, atol=1e-6)


def test_one_step_and_the_teacher_after_it():
    """The student moves by the gradient, the teacher by momentum towards it, when the next step begins."""
    made, batch = tiny_methods.method("dino", momentum=0.9).train(), tiny_methods.batch(4)
    other = copy.deepcopy(made)
    made(batch, 0, 0, 0.0).backward()
    views = other.views(batch, 0)
    with torch.no_grad():
        heard = [other.head(other.model.features(view)) for view in views[:2]]
    said = [other.student_head(other.student.features(view)) for view in views]
    centre = torch.cat(heard).mean(0)  # of the first batch
    terms = [
        -(torch.softmax((h - centre) / 0.04, -1) * torch.log_softmax(s / 0.1, -1)).sum(-1).mean()
        for i, h in enumerate(heard) for j, s in enumerate(said) if i != j
    ]  # fmt: skip
    torch.stack(terms).mean().backward()
    for module in (made, other):
        torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1).step()
    for one, two in zip(made.student.parameters(), other.student.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    before = [p.clone() for p in made.model.parameters()]
    made(batch, 0, 1, 0.5)
    made(batch, 0, 1, 0.5)  # a second batch of the same step moves nothing
    share = 0.1 * (1 + math.cos(math.pi * 0.5)) / 2
    for old, new, student in zip(before, made.model.parameters(), made.student.parameters(), strict=True):
        assert torch.allclose(new, old * (1 - share) + student * share, atol=1e-6)


def test_the_centre_starts_at_the_first_batch_and_is_not_started_again():
    made, batch = tiny_methods.method("dino").train(), tiny_methods.batch(4)
    first = made._ask(made.model, made.head, made.views(batch, 0)[:2]).mean((0, 1))
    made(batch, 0, 0, 0.0)
    assert torch.allclose(made.centre, first, atol=1e-6)
    resumed = tiny_methods.method("dino").train()
    resumed.load_state_dict(made.state_dict())
    other = tiny_methods.batch(4)._replace(images=torch.randn_like(batch.images))
    for module in (made, resumed):
        module(other, 1, 1, 0.5)
    assert torch.allclose(resumed.centre, made.centre, atol=1e-6)
    assert (made.centre - first).abs().max() > 0


def test_the_teacher_is_never_trained_and_never_drops():
    made = tiny_methods.method("dino", tiny_methods.encoder(dropout=0.5)).train()
    assert made.student.training
    assert not made.model.training
    assert not any(p.requires_grad for p in made.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(made.model.parameters(), made.student.parameters(), strict=True))


def test_views_have_their_sizes():
    made, batch = tiny_methods.method("dino", small_views=3), tiny_methods.batch(4)
    assert [tuple(view.shape) for view in made.views(batch, 0)] == [(4, 3, 16, 16)] * 2 + [(4, 3, 8, 8)] * 3


def test_a_collapse_is_noticed():
    made, images = tiny_methods.method("dino").eval(), torch.randn(32, 3, 16, 16)
    figures = made.health(images)
    assert made.warning({"feature_spread": 0.9, "teacher_entropy": 0.5}) is None
    assert 0 < figures["feature_spread"] < 1.5
    assert 0 <= figures["teacher_entropy"] <= 1
    with torch.no_grad():  # every picture the same features
        made.model.norm.weight.zero_()
        made.model.norm.bias.fill_(1.0)
    assert "nearly the same features" in made.warning(made.health(images))
    assert "says nothing" in made.warning({"feature_spread": 0.9, "teacher_entropy": 1.0})


def test_without_room_for_small_views():
    fixed = tiny_methods.encoder(any_size=False)
    with pytest.raises(ConfigError, match=r"model\.any_size=true"):
        tiny_methods.method("dino", fixed)
    tiny_methods.method("dino", fixed, small_views=0)(tiny_methods.batch(), 0, 0, 0.0)


def test_stems_are_welcome():
    made = tiny_methods.method("dino", tiny_methods.encoder(stem="conv", pool="attention"))
    assert torch.isfinite(made(tiny_methods.batch(), 0, 0, 0.0))


@pytest.mark.parametrize(
    "wrong", [{"outputs": 1}, {"momentum": 1.0}, {"large_scale": (0.5, 0.4)}, {"student_temperature": 0.0}]
)
def test_settings_that_cannot_work(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        tiny_methods.method("dino", **wrong)
