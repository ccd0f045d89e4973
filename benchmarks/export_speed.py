"""One picture, and pictures in batches, through our exported file beside timm, transformers and a plain ONNX export.

    python benchmarks/export_speed.py [--sizes S/16 B/16] [--threads 2] [--batches 1 8] [--rounds 15] [--out FILE]

All have the same weights, and their logits are compared first. They take turns, a call each a round, so that a busy
machine slows all alike; a ratio is taken within a round, and its median over the rounds is reported. "timm, ONNX" is
what `torch.onnx.export(dynamo=True)` makes of timm's model, in ONNX Runtime as it comes; ours is in the session that
our engine opens. Prints a table and writes or prints one JSON document. int8 gives other logits: its difference is in
the document, its loss is for benchmarks/compression.py to measure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

OURS, OPENVINO, INT8 = "vitrail, ONNX", "vitrail, OpenVINO", "vitrail, int8"
EXACT = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["S/16", "B/16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--depth", type=int, help="fewer blocks, to try this out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    cells = [cell for size in chosen.sizes for cell in measure(size, chosen)]
    said = json.dumps({"threads": chosen.threads, "rounds": chosen.rounds, "cells": cells}, indent=1)
    show(cells)
    if chosen.out:
        chosen.out.write_text(said + "\n", encoding="utf-8")
    else:
        print(said)
    return 0 if all(cell["same"] for cell in cells) else 1


def measure(size: str, chosen: argparse.Namespace) -> list[dict]:
    import torch

    from vitrail.bench.peers import PEERS
    from vitrail.model.sizes import model_config

    torch.set_num_threads(chosen.threads)
    config = model_config(size, **({"depth": chosen.depth} if chosen.depth else {}))
    model = with_answers(PEERS["vitrail"].build(config))
    peers = {name: PEERS[name].load(config, model.state_dict()).eval() for name in ("timm", "transformers")}
    images = torch.randn(max(chosen.batches), 3, *config.image_size, generator=torch.Generator().manual_seed(0))
    ways = runners(model, peers, chosen.threads)
    return [cell(size, batch, ways, images[:batch], chosen.rounds) for batch in chosen.batches]


def with_answers(model):
    """A fresh head is zero, and would prove nothing."""
    import torch

    with torch.no_grad():
        model.head.weight.normal_(0, 0.05, generator=torch.Generator().manual_seed(1))
    return model.eval()


def runners(model, peers: dict, threads: int) -> dict[str, Callable]:
    """Name -> a function from images to logits as an array."""
    import onnxruntime

    from vitrail.bench.peers import PEERS
    from vitrail.deploy.onnx import exported_of, onnx_bytes
    from vitrail.deploy.openvino import openvino_model
    from vitrail.deploy.quantize import quantised
    from vitrail.predict.engines import OnnxEngine, OpenVinoEngine
    from vitrail.weights.artefact import Artefact

    artefact = Artefact(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    plain = onnxruntime.InferenceSession(plain_export(peers["timm"], model.config), options)

    def opened(content: bytes) -> Callable:
        return run(OnnxEngine(content, exported_of(content, OURS), OURS, threads=threads))

    return {
        "vitrail": eager(model, lambda model, images: model(images)),
        **{name: eager(peer, PEERS[name].logits) for name, peer in peers.items()},
        "timm, ONNX": session(plain),
        OURS: opened(onnx_bytes(artefact)),
        OPENVINO: run(OpenVinoEngine(*openvino_model(artefact), OURS, threads=threads)),
        INT8: opened(quantised(artefact)),
    }


def eager(model, call: Callable) -> Callable:
    import torch

    def run(images):
        with torch.inference_mode():
            return call(model, images).numpy()

    return run


def plain_export(model, config) -> bytes:
    import torch

    example = torch.zeros(2, 3, *config.image_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("batch")},)
        made = torch.onnx.export(model, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    return made.model_proto.SerializeToString()


def session(made) -> Callable:
    name = made.get_inputs()[0].name
    return lambda images: made.run(None, {name: images.numpy()})[0]


def run(engine) -> Callable:
    return lambda images: engine.run(images.numpy())


def cell(size: str, batch: int, ways: dict[str, Callable], images, rounds: int) -> dict:
    from vitrail.deploy.engines import race

    wanted = ways["timm"](images)
    differences = {name: float(abs(way(images) - wanted).max()) for name, way in ways.items()}
    timed = race([partial(way, images) for way in ways.values()], rounds)
    seconds = dict(zip(ways, timed, strict=True))
    exact = [name for name in ways if name != INT8]
    return {
        "size": size,
        "batch": batch,
        "same": all(differences[name] < EXACT for name in exact),
        "difference": differences,
        "ms": {name: 1000 * statistics.median(found) for name, found in seconds.items()},
        "times_as_fast_as": {
            ours: {name: ratio(seconds[name], seconds[ours]) for name in ways if name != ours}
            for ours in (OURS, OPENVINO, INT8)
        },
        "seconds": seconds,
    }


def ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


def show(cells: list[dict]) -> None:
    """Of every way its time, and how many times as fast ours are."""
    for found in cells:
        faster = found["times_as_fast_as"]
        heads = "".join(f"{ours.removeprefix('vitrail, '):>10}" for ours in faster)
        print(f"{found['size']} batch {found['batch']:<22}{heads}", file=sys.stderr)
        for name, ms in found["ms"].items():
            ratios = "".join(f"{row[name]:8.2f} x" if name in row else " " * 10 for row in faster.values())
            print(f"  {name:18}{ms:9.1f} ms{ratios}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
