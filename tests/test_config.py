"""Impossible settings are refused at the door, with the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail import Preprocessing, ResNetConfig, ViTConfig
from vitrail.config import POOLS, POSITIONS
from vitrail.errors import ConfigError, did_you_mean
from vitrail.model.sizes import model_config, model_names

GOOD = {"image_size": 224, "patch_size": 16, "num_classes": 10, "dim": 64, "depth": 2, "heads": 4, "mlp_dim": 128}

BAD = [
    ({"image_size": 225}, "image_size=225 is not a multiple of patch_size=16; use 224 or 240"),
    ({"image_size": 8}, "image_size=8 is not a multiple of patch_size=16; use 16"),
    ({"image_size": (224, 30)}, "image_size=30 is not a multiple of patch_size=16; use 16 or 32"),
    ({"image_size": (1, 2, 3)}, "a whole number or a pair"),
    ({"image_size": "224"}, "a whole number or a pair"),
    ({"patch_size": 0}, "patch_size=0 must be a whole number of at least 1"),
    ({"heads": 0}, "heads=0 must be"),
    ({"heads": 1.5}, "heads=1.5 must be"),
    ({"depth": True}, "depth=True must be"),
    ({"num_classes": -1}, "num_classes=-1 must be"),
    ({"dropout": 1.0}, "dropout=1.0 must lie in"),
    ({"pool": "max"}, "pool='max' is not known"),
    ({"positions": "sincos"}, "positions='sincos' is not known; did you mean 'sincos-"),
    ({"pool": "cls", "class_token": False}, "reads the class token"),
    ({"pool": "attention", "heads": 5}, "splits dim=64 into heads=5"),
    ({"positions": "rotary", "dim_head": 6}, "needs dim_head to be a multiple of 4, got 6; use dim_head=8"),
    ({"patch_norm": True}, "use patches='linear'"),
    ({"stem": "resnet", "stem_blocks": (1, 1, 1), "patch_size": 8}, "not a multiple of the stem's stride 16"),
    ({"stem": "conv", "patch_size": 7}, "is odd"),
    ({"stem": "conv", "patches": "linear"}, "does not go with stem"),
    ({"stem_blocks": (3,)}, "leave stem_blocks out"),
    ({"dpeth": 3}, "unknown setting 'dpeth' of ViTConfig; did you mean 'depth'?"),
]


@pytest.mark.parametrize(("changes", "said"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_bad_settings(changes, said):
    with pytest.raises(ConfigError) as caught:
        ViTConfig.from_dict({**GOOD, **changes})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_left_open_is_resolved_and_written_out():
    config = ViTConfig(**GOOD)
    assert (config.class_token, config.final_norm, config.head_dim) == (True, "tokens", 64)
    assert ViTConfig(**GOOD, pool="mean").class_token is False
    assert ViTConfig(**GOOD, norm="post").final_norm == "none"
    assert config.grid == (14, 14)
    assert ViTConfig(**GOOD, registers=3).prefix_tokens == 4


@given(
    st.sampled_from(POSITIONS),
    st.sampled_from(POOLS),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_written_config_rebuilds_the_same(positions, pool, rows, columns, registers, bias):
    sizes = {**GOOD, "image_size": (rows * 8, columns * 4), "patch_size": (8, 4)}
    config = ViTConfig(**sizes, positions=positions, pool=pool, registers=registers, qkv_bias=bias)
    assert ViTConfig.from_dict(config.to_dict()) == config
    assert config.grid == (rows, columns)


def test_names_of_the_paper_and_of_timm_mean_the_same():
    assert (
        model_config("B/16")
        == model_config("vit_base_patch16_224")
        == model_config("vit_base_patch16_224.augreg_in21k")
    )
    assert model_config("R50+B/16").stem_blocks == (3, 4, 9)
    assert model_config("S/8@96").grid == (12, 12)
    assert model_config("H/14").dim_head == 80
    for name in model_names():
        model_config(name)


@pytest.mark.parametrize("name", ["B16", "X/16", "R50+Ti/7", "", "vit_bas_patch16_224", "R101+B/16"])
def test_unknown_names_get_the_nearest(name):
    with pytest.raises(ConfigError, match="there is no model"):
        model_config(name)


def test_resnet_and_preprocessing():
    with pytest.raises(ConfigError, match=r"blocks=\(\) makes no network"):
        ResNetConfig(image_size=32, num_classes=3, blocks=())
    for width, least in ((44, 8), (72, 32)):
        with pytest.raises(ConfigError, match=f"into groups; use a multiple of {least}"):
            ResNetConfig(image_size=32, num_classes=3, blocks=(1,), width=width)
    with pytest.raises(ConfigError, match="mean has 3 channels and std 1"):
        Preprocessing(size=32, mean=(0, 0, 0), std=(1,))
    with pytest.raises(ConfigError, match="must be positive"):
        Preprocessing(size=32, mean=(0,), std=(0,))
    steps = Preprocessing(size=32, mean=(0.5,), std=(0.5,))
    assert Preprocessing.from_dict(steps.to_dict()) == steps


def test_did_you_mean_offers_neighbours_or_the_whole_short_list():
    assert did_you_mean("tmm", ["timm", "google"]) == "did you mean 'timm'?"
    assert did_you_mean("zzz", ["timm", "google"]) == "choose from google, timm"
    assert did_you_mean("zzz", [str(i) for i in range(100)]) == ""
