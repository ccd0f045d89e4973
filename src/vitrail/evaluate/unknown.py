"""When to say "unknown": the model is less sure than it was of nearly all it got right.

The score is the largest calibrated probability. The free energy of the logits (Liu et al. 2020) tells some far-off
pictures apart better, but it has no scale: nobody can judge a threshold of -7.3, while "less than 62 % sure" is the
number that stands beside every answer. Nor does energy stay put when a model is quantised or its head is refitted.
"""

from __future__ import annotations

import numpy as np

from vitrail.evaluate.metrics import Floats, Ints, predicted

KEEP = 0.95


def fit_unknown(probabilities: Floats, targets: Ints, keep: float = KEEP) -> float:
    """The probability below which an answer is unknown, so that at least `keep` of the right answers stay known.

    From pictures that the model was not trained on. 0 (nothing is unknown) where no answer was right.
    """
    assert 0 < keep <= 1
    sure = np.sort(probabilities.max(axis=1)[predicted(probabilities) == targets])
    lost = int((1 - keep) * len(sure) + 1e-9)  # 1 - 0.9 is a little less than 0.1 in binary
    return float(sure[lost]) if len(sure) else 0.0
