"""Settings: complete, written and read back, changed by name, refused with the remedy."""

from __future__ import annotations

import pytest
import yaml

from train import tiny
from vitrail.config import ResNetConfig
from vitrail.errors import ConfigError
from vitrail.train.settings import Budget, TrainSettings, change


def test_they_come_back_from_plain_values():
    for settings in (tiny.settings(), tiny.settings(model=ResNetConfig(32, 3, (1, 1)))):
        text = yaml.safe_dump(yaml.safe_load(yaml.safe_dump(_plain(settings.to_dict()))))
        assert TrainSettings.from_dict(yaml.safe_load(text)) == settings


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


CHANGES = [
    ("optim.lr", "0.01", lambda s: s.optim.lr, 0.01),
    ("optim.lr", "1e-3", lambda s: s.optim.lr, 1e-3),
    ("optim.lr", "2.5E-4", lambda s: s.optim.lr, 2.5e-4),
    ("optim.weight-decay", "0", lambda s: s.optim.weight_decay, 0),
    ("optim.betas", "[0.8, 0.9]", lambda s: s.optim.betas, (0.8, 0.9)),
    ("augment.flip", "false", lambda s: s.augment.flip, False),
    ("regularise.mixup", "0.4", lambda s: s.regularise.mixup, 0.4),
    ("model.depth", "4", lambda s: s.model.depth, 4),
    ("model.image_size", "[32, 16]", lambda s: s.model.image_size, (32, 16)),
    ("batch_size", 4, lambda s: s.batch_size, 4),
    ("start", "null", lambda s: s.start, None),
    ("data", "1e-photos", lambda s: s.data, "1e-photos"),
]


@pytest.mark.parametrize(("key", "text", "read", "value"), CHANGES, ids=[f"{row[0]}={row[1]}" for row in CHANGES])
def test_one_value_changed_by_name(key, text, read, value):
    assert read(change(tiny.settings(), key, text)) == value


WRONG = [
    ("optim.lrr", "1", "did you mean 'optim.lr'"),
    ("optm.lr", "1", "did you mean 'optim.lr'"),
    ("batchsize", "8", "did you mean 'batch_size'"),
    ("optim.lr", "fast", "optim.lr=fast cannot be used"),
    ("optim.lr", "-1", "must be positive"),
    ("optim.lr", "inf", "optim.lr=inf"),
    ("optim.lr", ".nan", "must be positive"),
    ("optim.clip", "-1", "at least 0"),
    ("optim.weight_decay", ".inf", "at least 0"),
    ("optim.betas", "[0.9, 1.0]", r"must lie in \[0, 1\)"),
    ("optim.betas", "[0.9]", r"must lie in \[0, 1\)"),
    ("optim.momentum", "1", r"must lie in \[0, 1\)"),
    ("optim.name", "adam", "did you mean 'adamw'"),
    ("optim.warmup", "5", "share of the run"),
    ("optim.layer_decay", "0", r"\(0, 1\]"),
    ("optim", "adamw", r"give one of them, as optim\.key=value"),
    ("model", "S/16", r"give one of them, as model\.key=value"),
    ("batch_size", "0", "at least 1"),
    ("batch_size", "2.5", "whole number"),
    ("batch_size", "many", "whole number"),
    ("batch_size", "true", "whole number"),
    ("workers", "-1", "at least 0"),
    ("in_memory", "2", "true, false or null"),
    ("seed", "x", "whole number"),
    ("accumulate", "0", "at least 1"),
    ("average", "1", "0.99 is a usual value"),
    ("balance", "weight", "did you mean 'weights'"),
    ("precision", "fp16", "float16"),
    ("budget.steps", "0", "must be more than 0"),
    ("budget.minutes", "5", "the budget is minutes and steps"),
    ("image.std", "[0, 0, 0]", "must be positive"),
    ("regularise.patch_dropout", "1", r"\[0, 1\)"),
    ("model.dim", "[", "whole number"),
]


@pytest.mark.parametrize(("key", "text", "said"), WRONG, ids=[f"{row[0]}={row[1]}" for row in WRONG])
def test_values_that_cannot_work_are_refused_with_the_remedy(key, text, said):
    with pytest.raises(ConfigError, match=said):
        change(tiny.settings(), key, text)


def test_missing_and_wrong_parts_of_a_config_file():
    whole = tiny.settings().to_dict()
    for values, said in (
        ({k: v for k, v in whole.items() if k != "optim"}, "optim"),
        ({k: v for k, v in whole.items() if k != "data"}, "data"),
        ({**whole, "optim": {**whole["optim"], "lr": "fast"}}, "cannot be used"),
        ({**whole, "model": {**whole["model"], "kind": "cnn"}}, "model.kind"),
        ({**whole, "extra": 1}, "unknown setting 'extra'"),
    ):
        with pytest.raises(ConfigError, match=said):
            TrainSettings.from_dict(values)


@pytest.mark.parametrize("budget", [{}, {"steps": 1, "epochs": 1}, {"minutes": float("nan")}, {"epochs": -1}])
def test_one_budget_more_than_nothing(budget):
    with pytest.raises(ConfigError, match=r"budget|more than 0"):
        Budget(**budget)


def test_the_summary_names_the_choices():
    rows = {name: (value, why) for name, value, why in tiny.settings().summary({"model": "small"})}
    assert rows["model"] == ("ViT of width 16, depth 2, patches 8x8", "small")
    assert rows["batch"][0] == "8 pictures"
    assert rows["budget"][0] == "12 steps, on cpu"
