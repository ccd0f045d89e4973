"""How many points of accuracy a changed model loses, as well as a few hundred pictures can tell.

Labels alone mislead where there are few: of many candidates the one that seems to lose least is also the luckiest. The
original knows more than the labels of those pictures: where a candidate says something else, the original's calibrated
probabilities say how likely that is right. What they expect is lost is nearly free of luck, but no better than the
original's calibration; what the labels count is free of that, and full of luck. Each counts by how sure it is.
"""

from __future__ import annotations

import numpy as np

from vitrail.evaluate.metrics import Floats, Ints

DOUBT = 0.5  # how far what is expected may be from the truth, as a share of itself (LOG.md, 2026-11-18)
LEAST_DOUBT = 0.1  # and at least, in points


def points_lost(original: Floats, said: Ints, targets: Ints) -> float:
    """Of N pictures: the original's probabilities (N x K), what the candidate says (N), and what is right (N)."""
    counted, luck = _counted(original.argmax(axis=1), said, targets)
    expected = _expected(original, said)
    by_labels, by_original = luck**-2, max(LEAST_DOUBT, DOUBT * expected) ** -2
    return float((by_labels * counted + by_original * expected) / (by_labels + by_original))


def _counted(before: Ints, after: Ints, targets: Ints) -> tuple[float, float]:
    """Points lost by the labels, and their standard error: that of pictures which only one of the two has right."""
    lost, won = (
        np.count_nonzero(one)
        for one in ((before == targets) & (after != targets), (before != targets) & (after == targets))
    )
    points = 100 / len(targets)
    return points * (lost - won), points * (lost + won + 1) ** 0.5


def _expected(original: Floats, said: Ints) -> float:
    """Points lost if the original's probabilities are right."""
    rows = np.arange(len(said))
    return float(100 * (original.max(axis=1) - original[rows, said]).mean())
