"""The process that is timed: `python -m vitrail.bench.worker NAME THREADS`, with torch and one library in it.

It waits for orders, one JSON object a line on stdin, and answers each with one line on stdout:

    {"order": "hello"}                                          {"version": "1.0.30"} or {"missing": why}
    {"order": "make_weights", "config": {...}, "path": p, "seed": 0}    {}
    {"order": "memory", and as for build}                       {"growth": bytes, "total": bytes, "source": how}
    {"order": "build", "config": {...}, "weights": p, "mode": "training", "batch": 8}    {}
    {"order": "calibrate", "seconds": 0.3}                      {"seconds": one call, "calls": calls a measurement}
    {"order": "measure"}                                        {"seconds": one call, mean of a measurement}
    {"order": "logits"}                                         {"logits": [[...], ...]}

The first three compute nothing in this process itself, which `memory` relies on (see `in_child`). An order that
fails is answered with {"error": why}. The end of stdin ends the process.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from vitrail.bench.memory import PeakMemory, attempt, in_child
from vitrail.bench.peers import PEERS, Peer
from vitrail.config import ViTConfig
from vitrail.train.allocator import release_free_memory

Reply = dict[str, Any]

LEARNING_RATE, WEIGHT_DECAY = 1e-5, 0.05
SLOW_SECONDS = 2.0  # a call this long is its own warm-up: pages that were given back are a small part of it


class Worker:
    """What a measurement needs: `self.call` is the work, whatever it is."""

    def __init__(self) -> None:
        self.call: Callable[[], object] = lambda: None
        self.calls, self.warm_up = 1, True

    def hello(self) -> Reply:
        return {"version": importlib.metadata.version("torch")}

    def calibrate(self, seconds: float) -> Reply:
        """Choose how many calls make a measurement of at least `seconds`."""
        one = self._time(1)
        if one < SLOW_SECONDS:
            one = self._time(1)  # the first call also pays for choosing kernels and taking memory
        self.calls, self.warm_up = max(1, math.ceil(seconds / one)), one < SLOW_SECONDS
        return {"seconds": one, "calls": self.calls}

    def measure(self) -> Reply:
        """Seconds of one call. The others ran meanwhile, so a first call refills caches and is not counted."""
        if self.warm_up:
            self.call()
        seconds = self._time(self.calls)
        release_free_memory()  # idle workers would otherwise hold the memory of all their last steps at once
        return {"seconds": seconds}

    def _time(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        return (time.perf_counter() - start) / calls


class GemmWorker(Worker):
    """The yardstick: fp32 products of large square matrices."""

    def build(self, side: int) -> Reply:
        a, b, out = (torch.rand(side, side) for _ in range(3))
        self.call = lambda: torch.mm(a, b, out=out)
        return {}


class ModelWorker(Worker):
    """One library's model, at inference or in training."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer, self.model = peer, nn.Module()

    def hello(self) -> Reply:
        try:
            return {"version": self.peer.version()}
        except ImportError as error:
            why = "is not installed" if error.name == self.peer.package else f"does not import: {error}"
            return {"missing": f'{self.peer.name} {why}; pip install "vitrail[oracle]"'}

    def make_weights(self, **details: Any) -> Reply:
        return in_child(lambda: self._make_weights(**details))

    def _make_weights(self, config: Reply, path: str, seed: int) -> Reply:
        """Random values for every parameter, the head too, of a scale that keeps activations near 1."""
        torch.manual_seed(seed)
        tensors = {name: _draw(name, x) for name, x in self.peer.build(ViTConfig(**config)).state_dict().items()}
        save_file(tensors, path)
        return {}

    def build(self, config: Reply, weights: str, mode: str, batch: int) -> Reply:
        """The model with those weights, and a batch that is the same in every process."""
        shape = ViTConfig(**config)
        self.call, self.model = lambda: None, nn.Module()  # lets go of the model before: never two at once
        self.model = self.peer.load(shape, load_file(weights))
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(batch, shape.channels, *shape.image_size, generator=generator)
        self.labels = torch.randint(max(1, shape.num_classes), (batch,), generator=generator)
        self.calls, self.warm_up = 1, True
        self.call = self._training_step() if mode == "training" else self._inference()
        return {}

    def logits(self) -> Reply:
        with torch.inference_mode():
            return {"logits": self.peer.logits(self.model.eval(), self.images).tolist()}

    def memory(self, **details: Any) -> Reply:
        return in_child(lambda: self._memory(**details))

    def _memory(self, **details: Any) -> Reply:
        """Peak of two calls: the second training step has the optimiser's state beside the activations."""
        self.build(**details)
        peak = PeakMemory()
        self._time(2)
        return peak.read()

    def _inference(self) -> Callable[[], None]:
        self.model.eval()

        def infer() -> None:
            with torch.inference_mode():
                self.peer.logits(self.model, self.images)

        return infer

    def _training_step(self) -> Callable[[], None]:
        # fused: the quickest step for everyone, so that the models are compared and not the optimiser
        parameters = self.model.parameters()
        optimiser = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
        self.model.train()

        def step() -> None:
            optimiser.zero_grad()
            F.cross_entropy(self.peer.logits(self.model, self.images), self.labels).backward()
            optimiser.step()

        return step


def _draw(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if name.endswith("bias"):
        return torch.randn_like(tensor) * 0.1
    if tensor.ndim == 1:
        return torch.rand_like(tensor) + 0.5  # norms
    fan_in = tensor[0].numel() if name.endswith("weight") else 25  # tokens and positions: std 0.2
    std: float = fan_in**-0.5
    return torch.randn_like(tensor) * std


def serve(worker: Worker, orders: TextIO, answers: TextIO) -> None:
    """Obey until the orders end."""
    for line in orders:
        order = json.loads(line)
        reply = attempt(lambda order=order: getattr(worker, order.pop("order"))(**order))  # type: ignore[misc]
        print(json.dumps(reply), file=answers, flush=True)


def private_stdout() -> TextIO:
    """Our own way to the real stdout; what libraries print goes to stderr instead of between the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    answers = private_stdout()
    serve(ModelWorker(PEERS[name]) if name in PEERS else GemmWorker(), sys.stdin, answers)


if __name__ == "__main__":
    main()
