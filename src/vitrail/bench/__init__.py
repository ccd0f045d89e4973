"""Speed and memory beside other libraries, measured in the same run. Nothing here imports torch before it is asked."""

from vitrail.bench.model_speed import bench_models
from vitrail.bench.peers import PEERS
from vitrail.bench.plan import FULL, MODES, QUICK, SIZES, Preset
from vitrail.bench.report import markdown, progress_on, render, write_report

__all__ = [
    "FULL",
    "MODES",
    "PEERS",
    "QUICK",
    "SIZES",
    "Preset",
    "bench_models",
    "markdown",
    "progress_on",
    "render",
    "write_report",
]
