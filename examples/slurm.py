"""`vitrail train` on several machines, through Slurm: `python examples/slurm.py --nodes 2 --gpus 8 photos/ --out RUN`.

What is not an option of this script goes to `vitrail train`. Shortly before the time limit submitit queues the job
again, which then resumes the run from its last checkpoint. Needs `pip install submitit`, and a file system that all
machines share. Where there is no Slurm, submitit runs the same processes on this machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import submitit


class Train:
    """The processes of one job: one task a GPU, each of which becomes a process of `vitrail train`."""

    def __init__(self, words: list[str], out: Path) -> None:
        self.words, self.out = words, out

    def __call__(self) -> None:
        submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False)
        begun = (self.out / "config.yaml").exists()
        words = ["--resume", str(self.out)] if begun else [*self.words, "--out", str(self.out)]
        command = [sys.executable, "-m", "vitrail.cli.main", "train", *words]
        subprocess.run(command, check=True, env=os.environ)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Asked for shortly before the time limit: the same again, which then resumes."""
        return submitit.helpers.DelayedSubmission(self)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=1, help="of each machine; 0 trains on its processors")
    parser.add_argument("--processes", type=int, help="of each machine, where there are no GPUs")
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--partition")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run, on a shared file system")
    chosen, words = parser.parse_known_args()
    executor = submitit.AutoExecutor(folder=chosen.out.parent / "slurm")
    executor.update_parameters(
        name="vitrail",
        nodes=chosen.nodes,
        gpus_per_node=chosen.gpus,
        tasks_per_node=chosen.gpus or chosen.processes or 1,
        timeout_min=int(60 * chosen.hours),
        slurm_partition=chosen.partition,
    )
    job = executor.submit(Train(words, chosen.out.absolute()))
    print(f"job {job.job_id}; its output goes to {job.paths.stdout}")


if __name__ == "__main__":
    main()
