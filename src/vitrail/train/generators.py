"""torch's random generators, from which dropout and stochastic depth draw: one stream for each process."""

from __future__ import annotations

import torch
from torch import Tensor

from vitrail.train.distributed import World


def states(world: World) -> dict[str, Tensor]:
    """Where the streams of all processes are: `cpu` and `cuda` of the first, `1.cpu` of the second."""
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    gathered = enumerate(world.gather(own))
    return {_name(rank, device): state for rank, found in gathered for device, state in found.items()}


def restore(found: dict[str, Tensor], world: World, seed: int, step: int) -> None:
    """Go on with this process's stream; one that was not there when the states were saved begins a new one."""
    if (own := found.get(_name(world.rank, "cpu"))) is None:
        begin(world, seed, step)
        return
    torch.set_rng_state(own)
    on_gpu = found.get(_name(world.rank, "cuda"))
    if on_gpu is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(on_gpu)


def begin(world: World, seed: int, step: int = 0) -> None:
    """A stream of its own for every process but the first, which goes on with the one it has."""
    if not world.first:
        torch.manual_seed((seed * 1_000_003 + step) * 65_537 + world.rank)


def _name(rank: int, device: str) -> str:
    return f"{rank}.{device}" if rank else device
