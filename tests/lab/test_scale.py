"""The paper's own cost, and this machine's."""

from __future__ import annotations

import pytest

from vitrail.errors import ConfigError
from vitrail.lab.here import look_here
from vitrail.lab.scale import count_work, parse_count, parse_hardware, scale
from vitrail.model.sizes import model_config

JFT, IMAGENET21K = "303M", "14.2M"

# Table 6: exaFLOPs of pre-training on JFT.
EXAFLOPS = [
    ("B/32", 7, 55),
    ("B/16", 7, 224),
    ("L/32", 7, 196),
    ("L/16", 7, 783),
    ("L/16", 14, 1567),
    ("H/14", 14, 4262),
]

# Table 2: TPUv3-core-days.
CORE_DAYS = [("H/14", JFT, 14, 2500), ("L/16", JFT, 14, 680), ("L/16", IMAGENET21K, 90, 230)]


@pytest.mark.parametrize(("model", "epochs", "expected"), EXAFLOPS)
def test_the_arithmetic_is_the_papers(model, epochs, expected):
    assert scale(model, JFT, epochs, "1xTPUv3").exaflops == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(("model", "images", "epochs", "expected"), CORE_DAYS)
def test_core_days_are_within_a_factor_of_one_and_a_half(model, images, epochs, expected):
    found = scale(model, images, epochs, "512xTPUv3")
    assert expected / 1.5 < found.device_days < expected * 1.5
    assert found.days == pytest.approx(found.device_days / 512)


def test_weights_are_counted_exactly_without_being_built():
    assert count_work(model_config("H/14"))[0] == 632_045_800


def test_more_devices_take_less_memory_each():
    found = scale("H/14", JFT, 14, "8xA100")
    sizes = list(found.gigabytes.values())
    assert sizes == sorted(sizes, reverse=True)
    assert found.gigabytes[1] > 16 * 632e6 / 1e9
    assert not scale("H/14", JFT, 14, "1xT4").fits[1]
    assert any("too much" in line for line in scale("H/14", JFT, 14, "1xT4").lines())


@pytest.mark.parametrize(
    ("words", "count"), [("300M", 3e8), ("1.28M", 1.28e6), ("14k", 14e3), ("50,000", 5e4), ("2B", 2e9)]
)
def test_numbers_of_pictures(words, count):
    assert parse_count(words) == pytest.approx(count)


@pytest.mark.parametrize("words", ["many", "", "0", "-5", "3 M M"])
def test_no_number_of_pictures(words):
    with pytest.raises(ConfigError, match="300M"):
        parse_count(words)


def test_hardware():
    assert parse_hardware("8xA100")[0] == 8
    assert parse_hardware("H100") == (1, parse_hardware("1 x H100")[1])
    for words in ("8xA10000", "8", "x", "0xA100"):
        with pytest.raises(ConfigError, match="write 8xA100"):
            parse_hardware(words)


@pytest.mark.parametrize("wrong", [{"utilisation": 0.0}, {"utilisation": 1.5}, {"epochs": 0}])
def test_impossible_assumptions(wrong):
    with pytest.raises(ConfigError):
        scale(**{"model": "B/16", "images": "1M", "epochs": 1, "hardware": "A100", **wrong})


def test_a_resnet_is_not_predicted():
    with pytest.raises(ConfigError, match="plain ViT"):
        look_here("R50")


@pytest.mark.full
def test_a_step_of_this_machine_is_predicted_within_a_quarter():
    found = look_here("Ti/16")
    assert found.predicted == pytest.approx(found.measured, rel=0.25)
    assert 0 < found.utilisation < 1.2
