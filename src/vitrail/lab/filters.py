"""Section 4.5, figure 7 left: the first layer's filters are a low-dimensional basis of a patch's fine structure."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.statistics import mean_interval
from vitrail.lab.verdict import Verdict, all_of, more_than

TRAINED, FRESH = "first_components", "fresh_components"
MODEL = "patches of 4"


def judge(results: Results) -> Verdict:
    pairs = zip(results[TRAINED][MODEL], results[FRESH][MODEL], strict=True)
    gained = mean_interval([trained - fresh for trained, fresh in pairs])
    return all_of([more_than("share of variance in the first 8 of 48 components, trained minus fresh", gained)])


CLAIM = Claim(
    name="filters",
    title="The patch embedding learns a low-dimensional basis",
    hypothesis="The first 8 principal components of the filters hold more of their variance than before training.",
    paper="Figure 7 left, L/32: the first 28 components look like basis functions of the structure within a patch.",
    differs="Patches of 4 x 4 pixels have 48 dimensions instead of 3,072; a number instead of a picture.",
    if_not="The weights start random and a short training may hardly move them.",
    arms=(Arm(MODEL),),
    judge=judge,
    steps=2000,
    minutes=1.5,
    measures=(TRAINED, FRESH),
    shown=TRAINED,
)
