"""A model as a program of torch.export (.pt2), for other programs: AOTInductor, ExecuTorch, or torch.export.load.

We write such files and do not open them again later: a .pt2 can carry code, and nothing in it tells ours from others.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import torch

from vitrail.config import Pair, Preprocessing
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.deploy.onnx import describe
from vitrail.deploy.resample import at_size, steps_of
from vitrail.errors import ConfigError
from vitrail.predict.engines import Logits
from vitrail.weights.artefact import Artefact
from vitrail.weights.description import KEY


def write_program(artefact: Artefact, path: Path, *, size: Pair | None = None, pixels: bool = False) -> None:
    """Images (B C H W, normalised) to logits, the batch free; the description is its extra file `vitrail`."""
    if pixels:
        raise ConfigError("--to torch takes normalised images", fix="leave --preprocess out, or use --to onnx")
    artefact = at_size(artefact, size)
    model, config = artefact.model.eval(), artefact.model.config
    example = torch.zeros(2, config.channels, *steps_of(artefact).size)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's own, about its own future
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
        outputs = int(program.module()(example).shape[1])
        said = json.dumps(describe(artefact, outputs, pixels=False), ensure_ascii=True)
        torch.export.save(program, path, extra_files={KEY: said})


class ProgramEngine:
    """Runs a file that was written a moment ago, by ourselves, to compare it."""

    name = "torch.export"

    def __init__(self, path: Path, preprocessing: Preprocessing) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._run = torch.export.load(path).module()
        self.preprocessing = preprocessing

    def __call__(self, batch: Pixels) -> Logits:
        with torch.inference_mode():
            answers = self._run(torch.from_numpy(normalise(batch, self.preprocessing))).numpy()
        return np.asarray(answers, np.float32)
