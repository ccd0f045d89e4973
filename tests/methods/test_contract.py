"""What every method must do, whatever it is: a new row of the registry is tested here without a line more."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from methods import tiny_methods
from train import tiny
from vitrail.data.loader import TrainingLoader
from vitrail.methods.registry import METHODS
from vitrail.model import ViT
from vitrail.train.budget import Steps
from vitrail.train.loop import Interrupted, Trainer
from vitrail.train.pretraining import build_method
from vitrail.train.run import Run

every_method = pytest.mark.parametrize("name", METHODS)

ENCODERS = {
    "class token": {"pool": "cls", "positions": "learned"},
    "registers": {"registers": 2, "pool": "cls+mean", "positions": "learned-patches"},
    "rectangle": {"image_size": (8, 24), "positions": "rotary"},
    "grey": {"channels": 1, "positions": "relative"},
    "post-norm": {"norm": "post"},
    "flattened patches": {"patches": "linear", "patch_norm": True, "layer_scale": 1e-2},
}


@every_method
@pytest.mark.parametrize("parts", ENCODERS.values(), ids=ENCODERS)
def test_a_gradient_reaches_every_trainable_weight(name, parts):
    model = tiny_methods.encoder(**parts)
    # Over several batches: a row of a table may be used by few pictures.
    made = tiny_methods.method(name, model).train()
    for first in (0, 8):
        loss = made(tiny_methods.batch(8, model, first), 0, 0, 0.5)
        assert loss.ndim == 0
        assert torch.isfinite(loss)
        loss.backward()
    trained = {n: p for n, p in made.named_parameters() if p.requires_grad}
    assert trained
    for weight, parameter in trained.items():
        assert parameter.grad is not None, weight
        assert parameter.grad.abs().sum() > 0, weight


@every_method
def test_the_loss_falls(name):
    # DINO's centre, on its way to the mean, changes what is to be learned faster than so few steps teach it.
    made = tiny_methods.method(name, **({"centre_momentum": 0.999} if name == "dino" else {}))
    optimizer = torch.optim.AdamW([p for p in made.parameters() if p.requires_grad], lr=3e-3)
    losses, batch = [], tiny_methods.batch(8)
    for step in range(50):
        loss = made.train()(batch, step, step, step / 50)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5]), losses


@every_method
def test_the_encoder_loads_into_a_plain_model(name):
    made = tiny_methods.method(name)
    model = ViT.from_config(made.model.config)
    model.load_state_dict(made.model.state_dict(), strict=True)
    images = tiny_methods.batch().images
    with torch.no_grad():  # a teacher has no gradients, without which attention is computed another way
        assert torch.equal(model.eval()(images), made.eval().model(images))


@every_method
def test_what_is_drawn_is_a_function_of_seed_epoch_and_picture(name):
    made, given = tiny_methods.method(name).eval(), tiny_methods.batch(4)
    first = made(given, 1, 5, 0.5)
    torch.manual_seed(99)
    assert torch.equal(made(given, 1, 6, 0.5), first)
    assert not torch.equal(made(given, 2, 5, 0.5), first)
    other = tiny_methods.method(name, seed=4).eval()
    assert not torch.equal(other(given, 1, 5, 0.5), first)


@every_method
def test_measuring_changes_nothing(name):
    made = tiny_methods.method(name).eval()
    before = {key: value.clone() for key, value in made.state_dict().items()}
    images = tiny_methods.batch().images
    made(tiny_methods.batch(), 0, 0, 1.0)
    made.yardstick(images)
    made.health(images)
    made.preview(tiny_methods.batch())
    assert all(torch.equal(value, before[key]) for key, value in made.state_dict().items())


class StopAfter(tiny.Silent):
    """Interrupts as Ctrl-C would, after so many steps."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def step(self, row, steps_left):
        super().step(row, steps_left)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def trainer(folder, name, watcher=None):
    settings = tiny_methods.settings(name)
    torch.manual_seed(settings.seed)
    folder.mkdir(exist_ok=True)
    loader = TrainingLoader(
        tiny.examples(), "train", settings.image, settings.augment, batch_size=8, channels=3, seed=settings.seed
    )
    return Trainer(settings, build_method(settings), loader, Steps(6), Run(folder), watcher or tiny.Silent())


@every_method
def test_a_resumed_run_comes_to_the_same_bits(name, tmp_path):
    whole = trainer(tmp_path / "whole", name)
    whole.fit()
    first = trainer(tmp_path / "parts", name, StopAfter(3))
    with pytest.raises(Interrupted):
        first.fit()
    first.run.close()
    second = trainer(tmp_path / "parts", name)
    assert second.resume()
    assert second.state.step == 3
    second.fit()
    expected, found = whole.method.state_dict(), second.method.state_dict()
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    for one in (whole, second):
        one.run.close()
