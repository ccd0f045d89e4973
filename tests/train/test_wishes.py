"""What is asked of a run, beside the settings of an earlier one."""

import pytest

from vitrail.errors import ConfigError
from vitrail.train.settings import Budget, TrainSettings
from vitrail.train.wishes import RunWishes


def test_a_size_is_a_square():
    assert RunWishes("photos", Budget(steps=1), image_size=32).size == (32, 32)
    assert RunWishes("photos", Budget(steps=1)).size is None


def test_without_an_earlier_run_there_are_no_settings():
    assert RunWishes("photos", Budget(steps=1)).again(TrainSettings) is None


@pytest.mark.parametrize(
    ("wish", "option"),
    [({"model": "S/16"}, "--model"), ({"start": "run"}, "--from"), ({"image_size": 32}, "--image-size")],
)
def test_what_the_settings_say_cannot_be_asked_for_again(wish, option):
    with pytest.raises(ConfigError, match=f"leave out {option}$"):
        RunWishes("photos", Budget(steps=1), settings={}, **wish).again(TrainSettings)
