"""`vitrail predict` on a hundred thousand small files: flat memory, bad ones named, every file answered once.

    python benchmarks/predict_many.py [--count 100000] [--folder FOLDER]

Prints one JSON document; exits with 1 where a promise does not hold. The files are links to a few hundred pictures,
so that the disk is not what is measured; one in a thousand is bad.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from vitrail import Artefact, Preprocessing, create_model

ORIGINALS, BAD_EVERY, SETTLED, ALLOWED = 200, 1000, 10_000, 8 * 2**20


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=100_000)
    options.add_argument("--folder", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        root = Path(folder)
        made = make_files(root / "photos", chosen.count)
        found = watch(root, make_model(root / "model.safetensors"))
    good = {
        "all answered": found["rows"] == chosen.count,
        "bad ones named": found["named"] == found["errors"] == made,
        "memory flat": found["growth_bytes"] <= ALLOWED,
    }
    print(json.dumps({"files": chosen.count, "bad": made, **found, "promises": good}, indent=1))
    return 0 if all(good.values()) else 1


def make_files(folder: Path, count: int) -> int:
    """Files in a hundred folders; how many of them are bad."""
    originals = folder.parent / "originals"
    originals.mkdir()
    generator = np.random.default_rng(0)
    for number in range(ORIGINALS):
        pixels = generator.integers(0, 256, (36, 36, 3), np.uint8)
        Image.fromarray(pixels).save(originals / f"{number}.jpg", quality=90)
    (originals / "bad.jpg").write_bytes((originals / "0.jpg").read_bytes()[:200])
    for number in range(100):
        (folder / str(number)).mkdir(parents=True)
    for number in range(count):
        name = "bad" if number % BAD_EVERY == 0 else number % ORIGINALS
        os.link(originals / f"{name}.jpg", folder / str(number % 100) / f"{number}.jpg")
    return -(-count // BAD_EVERY)


def make_model(path: Path) -> Path:
    model = create_model("Ti/16", image_size=32, depth=1, dim=64, heads=1, mlp_dim=128, num_classes=10)
    Artefact(model, preprocessing=Preprocessing(size=32, mean=(0.5,) * 3, std=(0.5,) * 3)).save(path)
    return path


def watch(root: Path, model: Path) -> dict[str, float]:
    """Run the command as a user would, and read its memory from outside after so many lines of its answer."""
    command = [sys.executable, "-m", "vitrail.cli.main", "predict", str(model), str(root / "photos"), "--json"]
    rows = errors = settled = last = 0
    start = time.monotonic()
    with (root / "stderr").open("w") as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"{"):
                rows += 1
                errors += b'"error"' in line
                if rows == SETTLED:
                    settled = resident(process.pid)
                if rows % 1000 == 0:
                    last = resident(process.pid)
    seconds = time.monotonic() - start
    named = (root / "stderr").read_text().count(f"vitrail: {root / 'photos'}")
    return {
        "exit_code": process.returncode,
        "rows": rows,
        "errors": errors,
        "named": named,
        "memory_settled_mb": round(settled / 2**20, 1),
        "memory_end_mb": round(last / 2**20, 1),
        "growth_bytes": last - settled,
        "pictures_a_second": round(rows / seconds),
    }


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
