"""Section D.2: smaller patches are better, at the same number of weights."""

from __future__ import annotations

from itertools import pairwise

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

SIZES = (8, 4, 2)


def name(size: int) -> str:
    return f"patches of {size}"


def judge(results: Results) -> Verdict:
    found = results["accuracy"]
    return all_of([better(found, name(small), name(large)) for large, small in pairwise(SIZES)])


CLAIM = Claim(
    name="patch-size",
    title="Smaller patches, a longer sequence, help without more weights",
    hypothesis="Patches of 4 pixels beat patches of 8, and patches of 2 beat patches of 4.",
    paper="Section D.2 and figure 8: making patches smaller improves robustly without new parameters. Table 5, JFT: "
    "B/32 80.7 %, B/16 84.2 % on ImageNet.",
    differs="Pictures of 16 pixels, so 4, 16 and 64 patches; the paper has 49 to 256. Same steps, not same compute.",
    if_not="A patch of 2 pixels holds 12 numbers: what a longer sequence gains, so small a piece may lose.",
    arms=tuple(Arm(name(size), {"model.patch_size": size}, series="ViT", x=size) for size in SIZES),
    judge=judge,
    steps=600,
    minutes=3,
    x_label="pixels of a patch",
)
