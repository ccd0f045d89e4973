"""Fine-tuning at a higher resolution: positions interpolated, or drawn anew (the paper's section 3.2).

    python benchmarks/resolution.py [--data cifar10] [--size 16] [--steps 600] [--tune-steps 200] [--seeds 3]

For each seed a small ViT with learned positions is trained at SIZE pixels, then fine-tuned at 1.5 times as many with
interpolated and with fresh positions, and for as many steps at SIZE itself, each from a head at zero as in the paper,
with the settings that `vitrail train --from` takes for small models otherwise. Work is counted in steps, so that a busy
machine changes the time but not the result. Runs that are there are not done again; started again, it goes on where it
stopped. Prints one JSON document at the end.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from seeds import SMALL_VIT, VALIDATED, accuracy, summary


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="cifar10")
    options.add_argument("--size", type=int, default=16)
    options.add_argument("--steps", default="600", help="of training at SIZE")
    options.add_argument("--tune-steps", default="200", help="of each fine-tuning")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--threads", default="0", help="0: as many as there are cores")
    options.add_argument("--out", type=Path, default=Path("runs/resolution"))
    chosen = options.parse_args()
    found: dict[str, list[float]] = {"before": [], "same size": [], "fresh": [], "interpolated": []}
    for seed in range(chosen.seeds):
        for name, value in one_seed(chosen, seed).items():
            found[name].append(value)
    print(json.dumps({"data": chosen.data, "size": chosen.size, **summary(found, "same size")}, indent=1))


def one_seed(chosen: argparse.Namespace, seed: int) -> dict[str, float]:
    base = chosen.out / f"base-{seed}"
    before = accuracy(
        base,
        chosen.data,
        *("--image-size", str(chosen.size), "--steps", chosen.steps, "--seed", str(seed)),
        *(*SMALL_VIT, "model.positions=learned", f"threads={chosen.threads}", *VALIDATED),
    )
    larger = chosen.size * 3 // 2
    variants = {
        "same size": (chosen.size, "interpolate"),
        "fresh": (larger, "fresh"),
        "interpolated": (larger, "interpolate"),
    }
    tuned = {
        name: accuracy(
            chosen.out / f"{name.replace(' ', '-')}-{seed}",
            chosen.data,
            *("--from", str(base), "--image-size", str(size), "--steps", chosen.tune_steps, "--seed", str(seed)),
            *(f"positions={positions}", "probe_first=false", f"threads={chosen.threads}", *VALIDATED),
        )
        for name, (size, positions) in variants.items()
    }
    return {"before": before, **tuned}


if __name__ == "__main__":
    main()
