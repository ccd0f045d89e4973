"""Every promise in its full form: one row each with the figure, the target and the seconds it took.

    make scoreboard                      all families
    make scoreboard FAMILIES="M1 N1"     some of them

A family is a set of tests; a test gives its figure with pytest's `record_property("figure", ...)`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
RELIABILITY = "tests/reliability"


class Family(NamedTuple):
    name: str
    what: str
    target: str
    tests: tuple[str, ...]


FAMILIES = {
    family.name: family
    for family in (
        Family("T1", "kill -9 in training", "200 kills, all bit-equal, 0 lost", (f"{RELIABILITY}/test_kills.py",)),
        Family("T2", "SIGTERM", "50 saved, ended within 2 s", (f"{RELIABILITY}/test_sigterm.py",)),
        Family("T3", "damaged checkpoints", "120 passed over", (f"{RELIABILITY}/test_damaged_checkpoints.py",)),
        Family("T4", "full disk", "30, checkpoint intact, no debris", (f"{RELIABILITY}/test_full_disk.py",)),
        Family("T5", "durability order", "every save path", (f"{RELIABILITY}/test_durability.py",)),
        Family(
            "T6",
            "killed workers, ranks",
            "20 + 10, error in 10 s or exact resume",
            ("tests/data/test_workers.py", f"{RELIABILITY}/test_rank_kills.py"),
        ),
        Family("T7", "NaN, memory caps", "12 named, 5 advised", (f"{RELIABILITY}/test_not_a_number.py",)),
        Family("T8", "determinism", "9 runs, 1 hash", (f"{RELIABILITY}/test_determinism.py",)),
        Family(
            "D1",
            "bad and odd pictures",
            "46 bad refused, 14 odd right, 0 of 1,000 good lost",
            ("tests/data/test_images.py", "tests/data/test_odd_images.py"),
        ),
        Family("D2", "faults of data sets", "24 of 24", ("tests/data/test_dataset_faults.py",)),
        Family("M1", "hostile model files", "40 by every path, 0 events", ("tests/weights/test_safe.py",)),
        Family("M2", "fuzzed weight files", "100,000, only our errors", ("tests/weights/test_safe_fuzz.py",)),
        Family("S1", "fuzzed calls", ">= 5,000, no 5xx, no schema break", ("tests/serve/test_app.py",)),
        Family(
            "S2",
            "overload",
            "10,000, p99 <= 50 ms, >= 90 %",
            (f"{RELIABILITY}/test_serve_load.py::test_overload_in_full",),
        ),
        Family("S3", "attack probes", ">= 100 refused", (f"{RELIABILITY}/test_serve_attacks.py",)),
        Family("S4", "slow clients", "500 cut <= 15 s, p99 <= 2x", (f"{RELIABILITY}/test_serve_slow.py",)),
        Family("S5", "restarts", "20, 0 lost", (f"{RELIABILITY}/test_serve_load.py::test_restarts_in_full",)),
        Family("S6", "soak", "50,000, <= 10 MB", (f"{RELIABILITY}/test_serve_load.py::test_nothing_grows_in_full",)),
        Family("N1", "parity with peers", "<= 1e-5, 0 flips in 200 each", ("tests/parity",)),
        Family(
            "N2",
            "parity of exports",
            "<= 1e-4, 0 flips in 1,000",
            ("tests/deploy/test_onnx.py", "tests/deploy/test_export.py"),
        ),
        Family("N3", "batch independence", "<= 1e-5, 0 flips in 10,000", ("tests/model/test_company.py",)),
    )
}


def run(family: Family) -> bool:
    """Run one family and print its row; whether it held."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-n2", "--dist=loadgroup", "-m", "full or not full", f"--junitxml={report}"]
        command = [sys.executable, *words, *family.tests]
        settings = os.environ | {"OMP_NUM_THREADS": "1"}  # two workers on two cores: more threads wait for each other
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
        suite = next(ElementTree.parse(report).iter("testsuite")) if report.exists() else None
    held = done.returncode == 0 and suite is not None
    print(f"{family.name:4}{family.what:24}{_figure(suite):60}  {'held' if held else 'BROKEN':8}", end="", flush=True)
    print(f"{time.perf_counter() - start:7.0f} s   target: {family.target}", flush=True)
    if not held:
        print(done.stdout[-3000:], done.stderr[-1000:])
    return held


def _figure(suite: ElementTree.Element | None) -> str:
    if suite is None:
        return "did not run"
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    said = {p.get("value", "") for p in suite.iter("property") if p.get("name") == "figure"}
    counted = f"{tests - failed - skipped} passed, {failed} failed, {skipped} skipped"
    return "; ".join([counted, *sorted(said)])


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        print(f"there is no family {unknown[0]!r}; choose from {', '.join(FAMILIES)}", file=sys.stderr)
        return 2
    held = [run(FAMILIES[name]) for name in names or FAMILIES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
