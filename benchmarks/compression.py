"""How much faster than timm a trained model becomes, and what it loses: `vitrail optimize` beside timm's own model.

    python benchmarks/compression.py MODEL DATA [--max-drop 0.5] [--minutes 30] [--pictures 1000] [--out FILE]

MODEL is a trained model that timm can build too (a plain ViT), DATA its labelled pictures. The search keeps what loses
at most --max-drop points on the validation pictures; the winner is then timed in turns with timm, same weights, in
batches. Prints or writes one JSON document.
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
from vitrail.data.prepare import normalise
from vitrail.deploy.engines import race
from vitrail.deploy.keep import keep
from vitrail.deploy.optimize import MEASURED, Wanted, search
from vitrail.deploy.parity import waves
from vitrail.predict.examples import match_classes
from vitrail.predict.predictor import load


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
    wanted = Wanted(chosen.max_drop, None, "throughput")
    pace = {"split": split, "pictures": chosen.pictures, "seconds": 60 * chosen.minutes}
    found = search(predictor, examples, wanted, **pace, tell=lambda one: print(one, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        document = keep(found, predictor, examples, Path(folder), name=chosen.model, choosing=split)
        made = load(Path(folder) / "model.onnx")
    document["times_as_fast_as_timm"] = beside_timm(predictor, made, chosen.rounds)
    said = json.dumps(document, indent=1)
    if chosen.out:
        chosen.out.write_text(said + "\n", encoding="utf-8")
    else:
        print(said)
    return 0


def beside_timm(predictor, made, rounds: int) -> float:
    """Pictures a second of the winner by timm's, both from prepared pixels, in turns."""
    import torch

    timm = PEERS["timm"].load(predictor.model.config, predictor.model.state_dict()).eval()

    def run(pixels):
        with torch.inference_mode():
            return timm(torch.from_numpy(normalise(pixels, predictor.preprocessing)))

    theirs, ours = (waves(one.preprocessing.size, one.channels, MEASURED) for one in (predictor, made))
    seconds = race([partial(run, theirs), partial(made.engine, ours)], rounds)
    return statistics.median(their / our for their, our in zip(*seconds, strict=True))


if __name__ == "__main__":
    sys.exit(main())
