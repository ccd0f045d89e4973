"""What a ResNet teaches a small ViT: without a teacher, by its named class, by its answers, and with a token for it.

    python benchmarks/distillation.py [--data fashion-mnist] [--teacher RUN] [--teacher-steps 3000] [--steps 1000]

The teacher is trained first where none is given; all students have the same steps of the same pictures, and are small
plain ViTs. Work is counted in steps, so that a busy machine changes the time but not the result. Runs that are there
are not done again; started again, it goes on where it stopped. Prints one JSON document at the end.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from seeds import SMALL_VIT, VALIDATED, accuracy, summary

TEACHER = ("--model", "R18", "model.blocks=[1, 1, 1]", "model.width=16")  # which one core can train in minutes
VARIANTS = {
    "alone": (),
    "hard": ("--distill", "hard"),
    "soft": ("--distill", "soft"),
    "hard, token": ("--distill", "hard", "distill.token=true"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="fashion-mnist")
    options.add_argument("--teacher", type=Path, help="a run of a model of these classes")
    options.add_argument("--teacher-steps", default="3000")
    options.add_argument("--steps", default="1000", help="of each student")
    options.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--threads", default="0", help="0: as many as there are cores")
    options.add_argument("--out", type=Path, default=Path("runs/distillation"))
    chosen = options.parse_args()
    teacher = chosen.teacher or chosen.out / "teacher"
    steps = ("--steps", chosen.teacher_steps, f"threads={chosen.threads}", *VALIDATED)
    taught_by = accuracy(teacher, chosen.data, *steps, *TEACHER)
    found: dict[str, list[float]] = {name: [] for name in chosen.variants}
    for seed in range(chosen.seeds):
        for name in chosen.variants:
            found[name].append(student(chosen, teacher, name, seed))
    print(json.dumps({"data": chosen.data, "teacher": taught_by, **summary(found, "alone")}, indent=1))


def student(chosen: argparse.Namespace, teacher: Path, name: str, seed: int) -> float:
    folder = chosen.out / f"{name.replace(', ', '-')}-{seed}"
    words = VARIANTS[name]
    taught = ("--teacher", str(teacher), *words) if words else ()
    steps = ("--steps", chosen.steps, "--seed", str(seed), f"threads={chosen.threads}", *VALIDATED)
    return accuracy(folder, chosen.data, *steps, *SMALL_VIT, *taught)


if __name__ == "__main__":
    main()
