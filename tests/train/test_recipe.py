"""The automatic choices: sensible for all kinds of data, and the user's word above them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.model import build
from vitrail.model.sizes import model_config
from vitrail.train.recipe import (
    Facts,
    beside_what_is_asked,
    can_flip,
    consistent,
    from_scratch,
    from_weights,
)
from vitrail.train.settings import Budget


def facts(**changes):
    plain = {"data": "photos", "pictures": 1000, "classes": ("cat", "dog"), "channels": 3, "size": (480, 640)}
    return Facts(**{**plain, "mean": (0.5,) * 3, "std": (0.5,) * 3, "cores": 2, **changes})


@given(
    rows=st.integers(8, 3000),
    columns=st.integers(8, 3000),
    pictures=st.integers(2, 10**6),
    minutes=st.floats(0.1, 5000),
    device=st.sampled_from(["cpu", "cuda"]),
)
def test_any_data_get_a_model_that_can_be_built(rows, columns, pictures, minutes, device):
    chosen = from_scratch(
        facts(size=(rows, columns), pictures=pictures, device=device), Budget(minutes=minutes), seed=0
    ).settings
    assert chosen.model.image_size == chosen.image.size
    assert 4 <= chosen.model.grid[0] * chosen.model.grid[1] <= 400
    assert chosen.batch_size >= 1


def test_small_pictures_are_taken_as_they_are():
    chosen = from_scratch(facts(size=(28, 28), channels=1, mean=(0.3,), std=(0.3,)), Budget(minutes=5), 0).settings
    assert chosen.model.image_size == (28, 28)
    assert chosen.model.grid == (7, 7)
    assert build(chosen.model).config.channels == 1


@pytest.mark.parametrize(
    ("changes", "budget", "side"),
    [
        ({"pictures": 2640}, Budget(minutes=20), 160),
        ({"pictures": 2640}, Budget(minutes=5), 64),
        ({"pictures": 50_000}, Budget(minutes=20), 64),
        ({"pictures": 50_000}, Budget(epochs=300), 160),
        ({"pictures": 2640, "size": (100, 140)}, Budget(minutes=20), 64),
    ],
)
def test_photos_that_come_back_often_get_more_pixels(changes, budget, side):
    assert from_scratch(facts(**changes), budget, 0).settings.image.size == (side, side)
    assert from_scratch(facts(**changes), budget, 0, image_size=(80, 80)).settings.image.size == (80, 80)


@pytest.mark.parametrize(("side", "stem"), [(28, "small"), (32, "small"), (640, "imagenet")])
def test_a_resnet_does_not_shrink_small_pictures(side, stem):
    chosen = from_scratch(facts(size=(side, side)), Budget(minutes=5), 0, model="R18").settings
    assert chosen.model.stem == stem


def test_more_minutes_get_a_larger_model():
    models = [from_scratch(facts(), Budget(minutes=minutes), 0).settings.model for minutes in (2, 15, 50, 500)]
    work = [model.forward_flops for model in models]
    assert work == sorted(set(work))


@pytest.mark.parametrize(
    ("classes", "flips"),
    [(("cat", "dog"), True), (tuple("0123456789"), False), (("b", "d", "p"), False), (("turn left", "go"), False)],
)
def test_mirrored_letters_and_directions_mean_something_else(classes, flips):
    assert can_flip(classes) == flips
    assert from_scratch(facts(classes=classes), Budget(minutes=5), 0).settings.augment.flip == flips


def test_uneven_classes_are_balanced_and_said():
    chosen = from_scratch(facts(imbalance=20.0), Budget(minutes=5), 0)
    assert chosen.settings.balance == "weights"
    assert "20.0 times" in chosen.reasons["balance"]


def test_the_more_often_a_picture_comes_back_the_more_it_is_changed():
    few = from_scratch(facts(pictures=10**6), Budget(minutes=5), 0).settings
    many = from_scratch(facts(pictures=200), Budget(minutes=60), 0).settings
    assert few.augment.policy == "none"
    assert many.augment.policy == "trivial-augment"
    assert many.regularise.cutmix > 0


def test_weights_keep_their_shape_and_their_pixels():
    config = model_config("S/14@518 DINOv2")
    chosen = from_weights(facts(size=(160, 213)), Budget(minutes=20), 0, "w.safetensors", config).settings
    assert chosen.model.dim == 384
    assert chosen.model.image_size == (154, 154)
    assert chosen.image.mean == (0.485, 0.456, 0.406)
    assert chosen.model.read_layers == ()


def test_a_small_model_is_fine_tuned_as_it_was_trained():
    """With the small steps for large weights it ended below scratch (LOG.md)."""
    small = facts(size=(28, 28), pictures=540)
    scratch = from_scratch(small, Budget(steps=300), 0).settings
    tuned = from_weights(small, Budget(steps=300), 0, "w", scratch.model.replace(num_classes=0)).settings
    assert (tuned.optim, tuned.augment, tuned.regularise) == (scratch.optim, scratch.augment, scratch.regularise)
    assert (tuned.batch_size, tuned.average) == (scratch.batch_size, scratch.average)
    assert tuned.probe_first
    large = from_weights(small, Budget(steps=300), 0, "w", model_config("B/16")).settings
    assert large.optim.name == "adamw"


def test_epochs_are_counted_with_the_batch_that_few_pictures_have():
    """300 steps of 33 of 540 pictures are 18 epochs, for which no policy is needed."""
    assert from_scratch(facts(size=(28, 28), pictures=540), Budget(steps=300), 0).settings.augment.policy == "none"


@pytest.mark.parametrize(("minutes", "device", "batch"), [(6, "cpu", 16), (60, "cpu", 8), (6, "cuda", 32)])
def test_few_epochs_of_fine_tuning_take_larger_batches(minutes, device, batch):
    known = facts(size=(160, 213), pictures=2640, device=device)
    chosen = from_weights(known, Budget(minutes=minutes), 0, "w", model_config("S/14@518 DINOv2")).settings
    assert chosen.batch_size == batch
    assert (chosen.optim.lr == 3e-4) == (batch == 16)


@pytest.mark.parametrize(
    ("budget", "mixed"),
    [
        (Budget(minutes=6), False),
        (Budget(minutes=20), True),
        (Budget(epochs=3), False),
        (Budget(epochs=4), True),
        (Budget(steps=500), False),  # of 8 pictures: 1.5 epochs
        (Budget(steps=2000), True),
    ],
)
def test_pictures_that_come_back_often_are_mixed(budget, mixed):
    config, known = model_config("S/14@518 DINOv2"), facts(size=(160, 213), pictures=2640)
    chosen, reasons = from_weights(known, budget, 0, "w", config)
    assert chosen.regularise.cutmix == float(mixed)
    assert ("mixed" in reasons["regularise"]) == mixed
    assert (chosen.batch_size, chosen.optim.lr) == ((8, 2e-4) if mixed else (16, 3e-4))


def test_one_label_is_smoothed_and_several_are_not():
    config = model_config("S/14@518 DINOv2")
    one, several = (facts(size=(160, 213), multi_label=multi_label) for multi_label in (False, True))
    smoothed = [
        from_weights(f, Budget(minutes=6), 0, "w", config).settings.regularise.label_smoothing for f in (one, several)
    ]
    assert smoothed == [0.1, 0.0]


def test_a_head_reads_several_layers_where_there_is_no_time_to_train_them():
    config = model_config("S/14@518 DINOv2")
    chosen = from_weights(facts(size=(160, 213)), Budget(minutes=1), 0, "w.safetensors", config).settings
    assert chosen.model.read_layers == (6, 9, 12)
    long = from_weights(facts(size=(160, 213)), Budget(minutes=20), 0, "w.safetensors", config)
    assert beside_what_is_asked(long, {"frozen_blocks": "all-but-head"}).settings.model.read_layers == (6, 9, 12)


def test_a_model_that_trains_on_smaller_pictures_takes_them():
    chosen = from_weights(facts(size=(160, 213)), Budget(minutes=20), 0, "w", model_config("S/14@518 DINOv2")).settings
    assert not chosen.model.any_size
    assert consistent(chosen).model.any_size


@pytest.mark.parametrize(
    ("device", "bfloat16", "model", "expected"),
    [
        ("cpu", True, "S/16", "bfloat16"),
        ("cpu", True, "Ti/16", "float32"),  # too narrow to gain
        ("cpu", False, "B/16", "float32"),
        ("cuda", True, "Ti/16", "bfloat16"),
        ("cuda", False, "B/16", "float32"),
    ],
)
def test_16_bits_where_they_are_the_faster_ones(device, bfloat16, model, expected):
    known = facts(device=device, bfloat16=bfloat16)
    assert from_weights(known, Budget(minutes=5), 0, "w", model_config(model)).settings.precision == expected
    scratch = from_scratch(known, Budget(minutes=5), 0, model=model)
    assert scratch.settings.precision == expected
    assert ("precision" in scratch.reasons) == (expected == "bfloat16")  # no reason for what was not chosen
