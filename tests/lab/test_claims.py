"""Every claim: complete, judged on made-up numbers, its settings possible."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from vitrail.errors import ConfigError
from vitrail.lab.claim import Results
from vitrail.lab.claims import NAMES, all_claims, find
from vitrail.lab.verdict import CONTRADICTED, NOT_HERE, SUPPORTED

CLAIMS = {claim.name: claim for claim in all_claims()}


def results(claim, value, seeds=3, spread=0.001):
    """`value(arm, figure)` for every figure, a little different with each seed."""
    random = np.random.default_rng(0)
    return Results(
        {
            measured: {
                arm.name: (value(arm, measured) + random.normal(0, spread, seeds)).tolist() for arm in claim.judged
            }
            for measured in ("accuracy", "validation", *claim.measures)
        }
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_says_everything_and_is_undecided_by_noise(name):
    claim = CLAIMS[name]
    assert claim.name == name
    for words in (claim.title, claim.hypothesis, claim.paper, claim.differs, claim.if_not):
        assert len(words) > 20
    assert claim.minutes > 0
    noise = claim.judge(results(claim, lambda *_: 0.0, spread=0.2))
    assert noise.word in (NOT_HERE, CONTRADICTED)
    assert noise.findings


# What the claim expects, and its opposite, for each arm: made-up accuracies.
HIGH, LOW = 0.6, 0.5


def first_is_best(*names):
    """The arms named are better than the others, or worse in the opposite."""
    return (
        lambda arm, _: HIGH if arm.name.startswith(names) else LOW,
        lambda arm, _: LOW if arm.name.startswith(names) else HIGH,
    )


def falling_lead(ahead, places):
    """One series leads at the first place, less and less; in the opposite it is behind and gains."""
    least, most = places

    def share(arm):
        return np.log(arm.x / least) / np.log(most / least)

    return (
        lambda arm, _: 0.3 + 0.2 * share(arm) + (0.1 * (1 - share(arm)) if arm.series.startswith(ahead) else 0.0),
        lambda arm, _: 0.3 + 0.2 * share(arm) - (0.1 * (1 - share(arm)) if arm.series.startswith(ahead) else 0.0),
    )


def figures(high, low):
    """Figures beside the accuracy: some high, some low."""
    return (
        lambda _, figure: HIGH if figure in high else LOW,
        lambda _, figure: HIGH if figure in low else LOW,
    )


EXPECTED = {
    "positions": first_is_best("1-D", "2-D", "relative"),
    "pooling": (
        lambda arm, _: 0.6 - abs(np.log10(arm.x / 2e-3)) / 10,
        lambda arm, _: 0.6 if arm.series == "mean" else 0.5,
    ),
    "patch-size": (lambda arm, _: 0.7 - arm.x / 50, lambda arm, _: 0.5 + arm.x / 50),
    "pre-norm": (
        lambda arm, _: 0.1 if arm.name.startswith("post") and arm.x > 4 else 0.5,
        lambda arm, _: 0.1 if arm.name.startswith("pre ") and arm.x > 4 else 0.5,
    ),
    "data-size": falling_lead("ResNet", (500, 16000)),
    "bigger": falling_lead("small", (500, 16000)),
    "hybrid": falling_lead("hybrid", (32, 128)),
    "depth-width": first_is_best("3 times deeper"),
    "regularisation": first_is_best("both"),
    "optimiser": first_is_best("ViT adamw", "ResNet adamw"),
    "resolution": first_is_best("on at 24"),
    "masked-patches": (
        lambda arm, _: {"from scratch": 0.3, "after masked patches": 0.4}.get(arm.name, 0.5),
        lambda arm, _: {"from scratch": 0.5, "after masked patches": 0.4}.get(arm.name, 0.3),
    ),
    "mae": first_is_best("after"),
    "few-shot": (
        lambda arm, _: len(arm.name) + float(arm.name.split()[-1]),
        lambda arm, figure: float(arm.name.split()[-1]) * (1 if figure == "few_shot" else -1),
    ),
    "attention-distance": (
        lambda arm, figure: {"last_distance": 8.0, "first_spread": 3.0}.get(
            figure, 6.0 if arm.name == "hybrid" else 5.0
        ),
        lambda _, figure: {"last_distance": 2.0, "first_spread": 0.1}.get(figure, 5.0),
    ),
    "position-similarity": (lambda *_: 0.3, lambda *_: -0.3),
    "filters": figures({"first_components"}, {"fresh_components"}),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_supported_by_what_it_expects_and_not_by_the_opposite(name):
    claim = CLAIMS[name]
    expected, opposite = EXPECTED[name]
    assert claim.judge(results(claim, expected)).word == SUPPORTED
    assert claim.judge(results(claim, opposite)).word == CONTRADICTED


def test_every_claim_has_made_up_numbers():
    assert set(EXPECTED) == set(NAMES)


def test_the_whole_lab_fits_into_six_hours_of_one_core():
    assert sum(claim.minutes for claim in CLAIMS.values()) <= 6 * 60


def test_an_unknown_claim_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'positions'"):
        find("position")


def test_reading_the_claims_needs_no_torch():
    code = "import sys; from vitrail.lab.claims import all_claims; all_claims(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
