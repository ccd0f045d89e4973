"""Training that starts from weights: the probe, the head it gives, what is frozen, and never below the probe."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from oracles import randomise
from train import tiny
from vitrail import Artefact, create_model, load
from vitrail.errors import ConfigError
from vitrail.evaluate.linear import STRENGTHS, fit_ridges
from vitrail.model.positions import resize_positions
from vitrail.train.budget import Seconds
from vitrail.train.job import Wishes, glance, plan, resume, tell_some, train
from vitrail.train.probe import features, probe, set_head
from vitrail.train.progress import Display
from vitrail.train.run import Run, read_settings
from vitrail.train.session import Session
from vitrail.train.settings import Budget
from vitrail.train.transfer import blocks_to_freeze, freeze, start_model


@pytest.fixture
def weights(tmp_path):
    """A model of another task: 5 classes, 32 pixels, grey-blind to nothing; eight blocks, so several are read."""
    model = randomise(
        create_model("Ti/8", image_size=32, depth=8, dim=32, heads=2, dim_head=16, mlp_dim=64, num_classes=5)
    )
    Artefact(model).save(tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def told_apart(count=60):
    """Pictures whose class can be seen: the brightest channel."""
    found = tiny.examples(count)
    pixels = found.pictures.pixels // 2
    for index, target in enumerate(found.targets):
        pixels[index, ..., target] += 100
    return found.replace(pictures=type(found.pictures)(pixels))


def planned(weights, **budget):
    changes = {"threads": 1, "model.read_layers": [4, 6, 8], "regularise.small_images": 0.75}
    wishes = Wishes(data="tiny", start=str(weights), budget=Budget(**(budget or {"steps": 3})), changes=changes)
    return plan(wishes, told_apart())


@pytest.fixture
def session(weights, tmp_path):
    with closing(Run.create(tmp_path / "run")) as run:
        yield Session(planned(weights), run, Display())


def test_the_new_model_has_the_old_body_and_a_head_at_zero(weights):
    settings = planned(weights).settings
    model, old = start_model(settings), load(weights).model
    assert settings.model.read_layers == (4, 6, 8)
    assert settings.model.pool == "cls+mean"
    assert model.head.weight.shape == (3, 32 * 2 * 3)
    assert not model.head.weight.any()
    assert torch.equal(model.blocks[3].attn.qkv.weight, old.blocks[3].attn.qkv.weight)


def test_features_are_those_of_the_layers_side_by_side(weights):
    model = start_model(planned(weights).settings).eval()
    images = torch.randn(2, 3, *model.config.image_size)
    with torch.no_grad():
        tokens, layout = model.embed(images)
        layers = list(model.encode_layers(tokens, layout, (4, 6, 8)))
        expected = torch.cat([torch.cat([x[:, 0], x[:, 1:].mean(1)], 1) for x in layers], 1)
        torch.testing.assert_close(model.features(images), expected)


def test_a_run_starts_at_its_probe_and_never_ends_below(weights, tmp_path):
    result = train(planned(weights, steps=6), tmp_path / "run", Display(), started=0.0)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (probe,) = [row for row in rows if row["kind"] == "probe"]
    assert probe["accuracy"] == 1.0  # the brightest channel is not hard to see
    assert result.outcome.evaluation.accuracy >= probe["accuracy"]


def test_products_in_16_bits_learn_too_and_weights_stay_whole(weights, tmp_path):
    wishes = planned(weights, steps=6)
    half = wishes._replace(settings=wishes.settings.replace(precision="bfloat16", average=0.0))
    result = train(half, tmp_path / "run", Display(), started=0.0)
    assert result.outcome.evaluation.accuracy == 1.0
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    learned = load_file(newest / "tensors.safetensors")
    assert {value.dtype for name, value in learned.items() if "qkv" in name} == {torch.float32}
    train(wishes._replace(settings=wishes.settings.replace(average=0.0)), tmp_path / "whole", Display(), started=0.0)
    newest = sorted((tmp_path / "whole" / "checkpoints").iterdir())[-1]
    name = "method.model.blocks.0.attn.qkv.weight"
    assert not torch.equal(learned[name], load_file(newest / "tensors.safetensors")[name])  # it was not left aside


def test_a_ruinous_rate_leaves_the_probe_as_the_model(weights, tmp_path):
    wishes = planned(weights, steps=4)
    ruinous = wishes._replace(
        settings=wishes.settings.replace(average=0.0, optim=tiny.settings().optim.replace(lr=5.0))
    )
    result = train(ruinous, tmp_path / "run", Display(), started=0.0)
    assert result.outcome.evaluation.accuracy == 1.0


def test_frozen_blocks_keep_their_weights(weights, tmp_path):
    wishes = planned(weights, steps=4)
    frozen = wishes._replace(settings=wishes.settings.replace(frozen_blocks=6, average=0.0))
    before = start_model(frozen.settings)
    train(frozen, tmp_path / "run", Display(), started=0.0)
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    after = load_file(newest / "tensors.safetensors")
    for name, old in before.named_parameters():
        same = torch.equal(old, after[f"method.model.{name}"])
        frozen_one = name.startswith(("patch_embed", "cls_token", "pos_embed", *(f"blocks.{i}." for i in range(6))))
        assert same == frozen_one or name.endswith("bias"), name


def test_the_probe_learns_from_pictures_as_small_as_the_first_of_training(session):
    model, seen = start_model(session.settings), Counter()
    session.settings = session.settings.replace(
        regularise=session.settings.regularise.replace(small_images=0.5), model=model.config
    )
    usual = model.features

    def watched(images):
        seen[tuple(images.shape[-2:])] += len(images)
        return usual(images)

    model.features = watched
    probe(session, model)
    sizes = {split: len(session.examples.split(split)) for split in ("train", "val")}
    rows, columns = model.config.image_size
    assert seen == {(rows // 2, columns // 2): sizes["train"], (rows, columns): sizes["val"]}


def test_where_only_the_head_is_trained_pictures_have_their_full_size(weights):
    for changes, share, reason in (({}, 0.75, "all layers"), ({"frozen_blocks": "all-but-head"}, 1, "reads several")):
        wishes = Wishes("tiny", Budget(steps=1), start=str(weights), image_size=96, changes=changes)
        found = plan(wishes, told_apart())
        assert found.settings.regularise.small_images == share
        assert reason in found.reasons["model.read_layers"]


def test_an_interrupted_run_goes_on_without_a_second_probe(weights, tmp_path):
    found = told_apart()
    np.savez(tmp_path / "tiny.npz", images=found.pictures.pixels, labels=found.targets)
    wishes = Wishes(data=str(tmp_path / "tiny.npz"), start=str(weights), budget=Budget(steps=4), changes={"threads": 1})
    train(plan(wishes), tmp_path / "run", Display(), started=0.0)
    resume(tmp_path / "run", Display(), started=0.0)
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert rows.count('"probe"') == 1


@pytest.mark.parametrize(("seconds", "frozen"), [(1e6, 0), (0.0, 6), (None, 0)])
def test_as_many_blocks_are_trained_as_time_allows(session, seconds, frozen):
    probed = probe(session, start_model(session.settings))
    assert blocks_to_freeze(session, probed, seconds) == frozen


def test_a_few_pictures_say_how_long_the_end_will_take(session):
    assert (session.seconds_to_validate(), session.seconds_to_test()) == (0, 0)
    tell_some(session, start_model(session.settings))
    told = session.telling
    assert session.seconds_to_validate() == told * len(session.examples.split("val")) > 0
    session.note_telling(100.0)  # another program was busy: the time for the end is not planned by that
    assert session.telling == told


def test_batches_that_another_program_slowed_do_not_tell_the_speed(session, monkeypatch):
    usual, slowed = session.shown, 0.3

    def busy_machine(indices, stage):
        batches = list(usual(indices, stage))
        for number, batch in enumerate(batches * 3):
            yield batch
            time.sleep(slowed if number % 5 < 3 else 0)

    monkeypatch.setattr(session, "shown", busy_machine)
    indices = session.examples.split("train")
    found = features(session, start_model(session.settings).eval(), indices, "train")
    assert found.a_picture < slowed / 2 / len(next(usual(indices, "")).targets)


def test_time_kept_for_the_end_by_a_slow_moment_is_given_back(session):
    session.note_telling(5.0)  # seconds a picture: another program was busy
    pace = Seconds(1000.0)
    pace.reserve(session.seconds_to_validate())
    before = pace.budget
    glance(session, pace, session.method(start_model(session.settings)))
    assert session.telling < 1
    assert pace.budget > max(before, 900)


def test_freeze_nothing_by_default():
    model = create_model("Ti/8", image_size=16, depth=2, num_classes=3)
    for nothing in (0, None):
        freeze(model, nothing)
        assert all(parameter.requires_grad for parameter in model.parameters())


def test_all_but_the_head_can_be_frozen_and_no_more_blocks_than_there_are():
    model = create_model("Ti/8", image_size=16, depth=2, num_classes=3)
    with pytest.raises(ConfigError, match="has 2 blocks of a Transformer, not 3"):
        freeze(model, 3)
    freeze(model, "all-but-head")
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


def test_what_is_asked_for_is_frozen_whatever_the_time(weights, tmp_path):
    wishes = Wishes("tiny", Budget(minutes=0.1), start=str(weights), changes={"frozen_blocks": "7", "threads": 1})
    train(plan(wishes, told_apart()), tmp_path / "run", Display(), started=time.monotonic())
    assert read_settings(tmp_path / "run" / "config.yaml")["frozen_blocks"] == 7


def test_adapters_and_frozen_blocks_need_weights():
    for changes in ({"lora.rank": 4}, {"frozen_blocks": "all-but-head"}):
        with pytest.raises(ConfigError, match="need weights"):
            plan(Wishes("tiny", Budget(steps=1), changes=changes), told_apart())


# ---- adapters


def adapted(weights, data, **changes):
    wanted = {"threads": 1, "lora.rank": 2, "save_steps": 2, **changes}
    return plan(Wishes(str(data), Budget(steps=6), start=str(weights), changes=wanted))


@pytest.fixture
def data(tmp_path):
    found = told_apart()
    np.savez(tmp_path / "tiny.npz", images=found.pictures.pixels, labels=found.targets)
    return tmp_path / "tiny.npz"


def tensors(run):
    newest = sorted((run / "checkpoints").iterdir())[-1]
    return load_file(newest / "tensors.safetensors")


def test_a_run_with_adapters_trains_them_alone_and_keeps_a_plain_model(weights, data, tmp_path):
    planned = adapted(weights, data, average=0.0)
    assert (planned.settings.optim.lr, planned.settings.optim.layer_decay) == (1e-3, 1.0)
    train(planned, tmp_path / "run", Display(), started=0.0)
    before, after = start_model(planned.settings).state_dict(), tensors(tmp_path / "run")
    for name, old in before.items():
        plain = f"method.model.{name}"
        found = after.get(plain, after.get(plain.replace("qkv.", "qkv.base.").replace("proj.", "proj.base.")))
        assert torch.equal(found, old) == (not name.startswith("head.")), name
    assert any(tensor.any() for name, tensor in after.items() if name.endswith("lora_b"))
    kept = load(tmp_path / "run", check=True)
    assert set(kept.model.state_dict()) == set(before)


def test_an_interrupted_run_with_adapters_goes_on_to_the_same_bits(weights, data, tmp_path):
    planned = adapted(weights, data)
    train(planned, tmp_path / "whole", Display(), started=0.0)
    train(planned, tmp_path / "broken", Display(), started=0.0)
    for step in (6,):
        shutil.rmtree(tmp_path / "broken" / "checkpoints" / f"step-{step:08d}")
    resume(tmp_path / "broken", Display(), started=0.0)
    whole, again = tensors(tmp_path / "whole"), tensors(tmp_path / "broken")
    assert set(whole) == set(again)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


# ---- another size


def test_positions_are_interpolated_to_a_larger_size_or_drawn_anew(weights):
    def model(**changes):
        wishes = Wishes("tiny", Budget(steps=1), start=str(weights), image_size=48, changes=changes)
        torch.manual_seed(0)
        return start_model(plan(wishes, told_apart()).settings)

    old = load(weights).model.pos_embed
    grown, fresh = model().pos_embed, model(positions="fresh").pos_embed
    assert grown.shape == fresh.shape == (1, 37, 32)
    torch.testing.assert_close(grown, resize_positions(old, (4, 4), (6, 6)))
    assert torch.equal(grown[:, :1], old[:, :1])
    assert abs(fresh.std() - 0.02) < 0.005


def test_the_head_of_a_resnet_is_set_as_well():
    model = create_model("R18", image_size=32, num_classes=3, width=32).eval()
    images, random = torch.randn(4, 3, 32, 32), np.random.default_rng(0)
    with torch.inference_mode():
        found = model.features(images).numpy()
    head = fit_ridges(random.normal(size=(20, found.shape[1])), np.arange(20) % 3, 3, STRENGTHS[:1])[0]
    set_head(model, head)
    with torch.inference_mode():
        np.testing.assert_allclose(model(images).numpy(), head(found), atol=1e-4)
    with pytest.raises(ConfigError, match="all-but-head"):
        freeze(model, 1)


def test_ridge_head_in_the_model_answers_as_the_ridge(session):
    model = start_model(session.settings)
    indices = session.examples.split("train")
    train_features = features(session, model, indices, "train").features
    head = fit_ridges(train_features.values, train_features.targets, 3, STRENGTHS)[3]
    set_head(model, head)
    images = next(iter(session.evaluation_loader(indices))).images
    with torch.inference_mode():
        found = model(images).numpy()
    np.testing.assert_allclose(found, head(train_features.values[: len(found)]), atol=1e-4)
