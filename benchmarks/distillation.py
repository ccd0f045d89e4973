"""What a ResNet teaches a small ViT: without a teacher, by its named class, by its answers, and with a token for it.

    python benchmarks/distillation.py [--data cifar10] [--teacher RUN] [--teacher-minutes 60] [--minutes 10] [--seeds 3]

The teacher is trained first where none is given; all students have the same minutes, asking the teacher included.
Runs that are there are not done again; started again, it goes on where it stopped. Prints one JSON document at the end.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from seeds import accuracy, summary

VARIANTS = {
    "alone": (),
    "hard": ("--distill", "hard"),
    "soft": ("--distill", "soft"),
    "hard, token": ("--distill", "hard", "distill.token=true"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="cifar10")
    options.add_argument("--teacher", type=Path, help="a run of a model of these classes")
    options.add_argument("--teacher-minutes", default="60")
    options.add_argument("--minutes", default="10", help="of each student")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--out", type=Path, default=Path("runs/distillation"))
    chosen = options.parse_args()
    teacher = chosen.teacher or chosen.out / "teacher"
    taught_by = accuracy(
        teacher, chosen.data, "--model", "R18", "--minutes", chosen.teacher_minutes, "model.stem=small"
    )
    found = {
        name: [student(chosen, teacher, name, words, seed) for seed in range(chosen.seeds)]
        for name, words in VARIANTS.items()
    }
    print(json.dumps({"data": chosen.data, "teacher": taught_by, **summary(found, "alone")}, indent=1))


def student(chosen: argparse.Namespace, teacher: Path, name: str, words: tuple[str, ...], seed: int) -> float:
    folder = chosen.out / f"{name.replace(', ', '-')}-{seed}"
    taught = ("--teacher", str(teacher), *words) if words else ()
    return accuracy(folder, chosen.data, "--minutes", chosen.minutes, "--seed", str(seed), *taught)


if __name__ == "__main__":
    main()
