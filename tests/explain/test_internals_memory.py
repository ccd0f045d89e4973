"""A large model on large pictures is looked into within 3 GiB."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import resource
import numpy as np
from vitrail.explain.internals import look_inside
from vitrail.model import create_model
from vitrail.predict.predictor import Predictor
from vitrail.weights.artefact import Artefact

pixels = np.random.default_rng(0).integers(0, 256, (3, 384, 384, 3), dtype=np.uint8)
found = look_inside(Predictor.of(Artefact(create_model("L/16@384"))), [(str(n), one) for n, one in enumerate(pixels)])
assert found.pictures == 3
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.full
def test_a_large_model_needs_little_more_than_its_weights() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3 * 2**20  # KiB
