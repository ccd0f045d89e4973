"""Large photos are decoded small: the benchmark runs, and ours is well ahead in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "decode.py"


def test_faster_than_decoding_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(BENCHMARK), "--rounds", "2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found["ratio"]["ours"] == 1
    assert found["ratio"]["pillow"] > 1.5
