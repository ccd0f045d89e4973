"""What int8 and merging cost and bring, alone and together, and how much faster than timm a trained model becomes.

    python benchmarks/compression.py MODEL DATA [--max-drop 0.5] [--minutes 30] [--pictures 1000] [--out FILE]

MODEL is a trained model, DATA its labelled pictures. First a table: the model as it is, int8, merging, and both, each
on the same validation pictures and timed in turns with the original. Then the search of `vitrail optimize`, which keeps
what loses at most --max-drop points on the validation pictures; the winner is timed in turns with a timm model of the
same shape, in batches, where timm can build it (a plain ViT). Prints a table on stderr, and prints or writes one JSON
document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from vitrail.bench.peers import PEERS
from vitrail.cli.evaluate import open_with_splits
from vitrail.config import ViTConfig
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.deploy.candidates import Candidate, singles, together
from vitrail.deploy.engines import race
from vitrail.deploy.keep import keep
from vitrail.deploy.optimize import MEASURED, Bench, Measured, Wanted, measure, search
from vitrail.deploy.parity import waves
from vitrail.predict.examples import match_classes
from vitrail.predict.predictor import Predictor, load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--max-drop", type=float, default=0.5)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    predictor = load(chosen.model)
    examples = match_classes(open_with_splits(chosen.model, chosen.data), predictor)
    split = next(name for name in ("val", "test", "train") if name in examples.splits)
    together_and_alone = compare(Bench(predictor, examples, split, chosen.pictures))
    wanted = Wanted(chosen.max_drop, None, "throughput")
    pace = {"split": split, "pictures": chosen.pictures, "seconds": 60 * chosen.minutes}
    found = search(predictor, examples, wanted, **pace, tell=show)
    with tempfile.TemporaryDirectory() as folder:
        document = keep(found, predictor, examples, Path(folder), name=chosen.model, choosing=split)
        made = load(Path(folder) / "model.onnx")
    document["int8_and_merging"] = [one.to_dict() for one in together_and_alone]
    document["times_as_fast_as_timm"] = beside_timm(predictor, made, chosen.rounds)
    said = json.dumps(document, indent=1)
    if chosen.out:
        chosen.out.write_text(said + "\n", encoding="utf-8")
    else:
        print(said)
    return 0


def compare(bench: Bench) -> list[Measured]:
    """The original in torch and in ONNX Runtime, int8, merging, and both."""
    artefact = bench.predictor.artefact
    alone = singles(artefact, bench.prepared)
    rounded = [one for one in alone if one.precision.name in ("int8", "int8, calibrated")]
    merged = [one for one in alone if any(step.kind == "merging" for step in one.steps)]
    both = [pair for one in merged for other in rounded if (pair := together(one, other))]
    found = [bench.original()]
    show(found[0])
    for candidate in (Candidate(artefact), *rounded, *merged, *both):
        found.append(measure(bench, candidate).measured)
        show(found[-1])
    return found


def show(one: Measured) -> None:
    numbers = f"{100 * one.accuracy:7.2f} % {one.drop:+6.2f} lost {one.ms:8.2f} ms {one.faster:6.2f} x alone"
    print(f"{one.name:44} {numbers} {one.throughput:6.2f} x in batches", file=sys.stderr, flush=True)


def beside_timm(predictor: Predictor, made: Predictor, rounds: int) -> float | None:
    """Pictures a second of the winner by those of timm's model of the original's shape, from prepared pixels, in turns.

    timm's weights are its own, which its speed does not depend on. None where timm cannot build the shape.
    """
    import torch

    config = predictor.model.config
    if not isinstance(config, ViTConfig) or config.stem != "none":
        return None
    timm = PEERS["timm"].build(config).eval()

    def run(pixels: Pixels) -> torch.Tensor:
        with torch.inference_mode():
            return timm(torch.from_numpy(normalise(pixels, predictor.preprocessing)))

    theirs, ours = (waves(one.preprocessing.size, one.channels, MEASURED) for one in (predictor, made))
    seconds = race([partial(run, theirs), partial(made.engine, ours)], rounds)
    return statistics.median(their / our for their, our in zip(*seconds, strict=True))


if __name__ == "__main__":
    sys.exit(main())
