"""T7: what is not a number is named and never becomes the model; too little memory is said with what to change."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from reliability import tiny_runs
from vitrail.errors import EXIT_CHECK_FAILED, EXIT_WRONG_USE

FAILS, REFUSED = EXIT_CHECK_FAILED, EXIT_WRONG_USE
INJECTIONS = [
    (["optim.name=adamw", "optim.lr=1e38"], FAILS, "lower the learning rate"),
    (["optim.name=adamw", "optim.lr=1e38", "optim.clip=0"], FAILS, "lower the learning rate"),
    (["optim.name=sgd", "optim.lr=1e38"], FAILS, "lower the learning rate"),
    (["optim.name=sgd", "optim.lr=1e38", "optim.clip=0", "average=0"], FAILS, "lower the learning rate"),
    (["optim.name=muon", "optim.lr=1e38"], FAILS, "lower the learning rate"),
    (["optim.name=muon", "optim.lr=1e38", "save_steps=1"], FAILS, "lower the learning rate"),
    (["optim.weight_decay=1e38", "optim.lr=1"], FAILS, "lower the learning rate"),
    (["image.std=[1e-39, 1e-39, 1e-39]"], FAILS, "the loss is nan at step 0"),
    (["optim.lr=inf"], REFUSED, "optim.lr=inf"),
    (["optim.lr=.nan"], REFUSED, "optim.lr=nan"),
    (["image.std=[0, 0, 0]"], REFUSED, "must be positive"),
    (["optim.clip=.nan"], REFUSED, "optim.clip=nan"),
]
SHORT = (0, 3, 5, 7, 8)


def marked(number):
    return [] if number in SHORT else [pytest.mark.full]


@pytest.mark.parametrize("number", [pytest.param(n, marks=marked(n)) for n in range(len(INJECTIONS))])
def test_it_is_named_and_never_best(forge, pictures, tmp_path, number, record_property):
    changes, code, said = INJECTIONS[number]
    run = tmp_path / "run"
    done = forge.run(*tiny_runs.words(pictures, run, *changes))
    assert done.wait() == code, done.said()
    line = done.said().splitlines()[-1]
    assert line.startswith("vitrail: ")
    assert said in line
    files = [*run.rglob("*.safetensors")]
    assert all(np.isfinite(array).all() for path in files for array in load_file(path).values())
    record_property("figure", f"{len(INJECTIONS)} injections named, never best")


def test_weights_that_are_no_numbers_are_not_started_from(forge, pictures, undisturbed, tmp_path):
    tensors = load_file(undisturbed / "model.safetensors")
    tensors["blocks.0.mlp.fc1.weight"][0, 0] = np.nan
    with safe_open(undisturbed / "model.safetensors", "np") as file:
        save_file(tensors, tmp_path / "spoilt.safetensors", file.metadata())
    run = tmp_path / "run"
    words = ["train", pictures, "--from", tmp_path / "spoilt.safetensors", "--steps", 3, "--out", run, "threads=1"]
    done = forge.run(*words)
    assert done.wait() in (1, 3), done.said()
    assert "Traceback" not in done.said()
    assert not (run / "model.safetensors").exists()


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    "spare", [pytest.param(n, marks=[pytest.mark.full] * (n != 200)) for n in (100, 150, 200, 250, 300)]
)
def test_too_little_memory_is_said_with_what_to_change(forge, pictures, tmp_path, spare, record_property):
    words = ["train", pictures, "--steps", 3, "--model", "Ti/8", "--image-size", 128, "--batch-size", 64, "threads=1"]
    words += ["--device", "cpu", "--out", tmp_path / "run", "regularise.patch_dropout=0"]
    done = forge.run(*words, limits={"RLIMIT_AS": forge.memory() + spare * MEGABYTE})
    assert done.wait() == EXIT_CHECK_FAILED, done.said()
    line = done.said().splitlines()[-1]
    assert "there is not enough memory for batches of 64 pictures of 128x128" in line
    assert "use --batch-size 32 accumulate=2, or smaller pictures (--image-size)" in line
    record_property("figure", "5 memory caps, clear advice")
