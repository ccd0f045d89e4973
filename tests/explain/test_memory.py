"""What a rollout of a large model holds, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from model.test_memory import ENVIRONMENT

SCRIPT = """
import json, torch
from pathlib import Path
from vitrail import ViT, create_model
from vitrail.explain.methods import explain

def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

model = MODEL
images = torch.randn(1, 3, 384, 384)
with torch.inference_mode():
    model(images)
before = peak()
heat = explain(model, images, "rollout").heat
print(json.dumps({"before": before / 2**20, "peak": peak() / 2**20, "shape": heat.shape}))
"""


NARROW = "ViT(image_size=384, patch_size=16, num_classes=10, dim=64, depth=8, heads=16, mlp_dim=64, dim_head=4)"


def measure(model: str) -> dict:
    command = [sys.executable, "-c", SCRIPT.replace("MODEL", model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return json.loads(done.stdout)


def test_a_rollout_holds_one_layer_at_a_time():
    """As many tokens and heads as L/16 at 384: attention of 20 MiB a layer, and two more of it on the way."""
    found = measure(NARROW)
    assert found["shape"] == [24, 24]
    assert found["peak"] - found["before"] <= 4 * 577 * 577 * 16 * 4 / 2**30


@pytest.mark.full
def test_a_rollout_of_the_large_model_fits_in_three_gib(record_property):
    found = measure('create_model("L/16@384", num_classes=10)')
    record_property("figure", f"{found['peak']:.2f} GiB")
    assert found["peak"] < 3
