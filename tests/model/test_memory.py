"""What looking inside costs, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# glibc raises its threshold as large blocks are freed, and then keeps them: a fixed one gives every map back at once,
# so that the peak is what is held and not what the allocator kept.
ENVIRONMENT = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**20)}

SCRIPT = """
import json, torch
from pathlib import Path
from vitrail import create_model

def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

def growth(call):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    with torch.inference_mode():
        kept = call()
    return (peak() - before) / 1024, sum(x.numel() for x in kept) * 4 / 2**20

torch.set_num_threads(2)
model = create_model("L/16@384", num_classes=10, depth=DEPTH).eval()
images = torch.randn(1, 3, 384, 384)
growth(lambda: [model(images)])
print(json.dumps({
    "one": growth(lambda: model.attention(images, layers=[-1])),
    "all": growth(lambda: model.attention(images)),
    "streamed": growth(lambda: [weights.mean((0, 1)) for _, weights in model.iter_attention(images, range(DEPTH))]),
}))
"""


def test_one_layers_attention_does_not_hold_the_others():
    """L/16 at 384 has maps of 20 MB a layer: asking for one costs far less than all, and so does streaming."""
    depth = 12  # half of L is enough to tell, in half the time
    script = SCRIPT.replace("DEPTH", str(depth))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    found = json.loads(done.stdout)
    map_size = 577 * 577 * 16 * 4 / 2**20
    every, held = found["all"]
    assert held == depth * map_size
    assert every >= (depth - 1) * map_size
    for way in ("one", "streamed"):
        assert found[way][0] <= every - (depth - 4) * map_size, found
