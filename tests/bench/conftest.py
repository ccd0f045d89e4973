"""One tiny benchmark, shared by the tests of this folder."""

from __future__ import annotations

from typing import Any

import pytest

from bench.tiny import BRIEF, TINY
from vitrail.bench import bench_models

Steps = list[tuple[int, int, str]]


@pytest.fixture(scope="session")
def steps() -> Steps:
    """What the progress callback of `result` was told."""
    return []


@pytest.fixture(scope="session")
def result(steps: Steps) -> dict[str, Any]:
    return bench_models({"tiny": TINY}, preset=BRIEF, progress=lambda *step: steps.append(step))
