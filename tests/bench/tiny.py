"""A model and a preset so small that a whole benchmark takes seconds."""

from __future__ import annotations

from vitrail.bench import Preset
from vitrail.config import ViTConfig

TINY = ViTConfig(
    image_size=(16, 16), patch_size=(8, 8), num_classes=5, dim=32, depth=2, heads=2, mlp_dim=48, dim_head=16
)
BRIEF = Preset(batches=(2,), threads=(1,), repeats=2, least_repeats=1, measure_seconds=0.001, gemm_side=64)
