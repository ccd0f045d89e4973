"""How one gradient comes from the pictures of several processes: torch's DDP or FSDP2.

distribute=ddp    every process holds all weights; gradients are averaged
distribute=fsdp   weights, gradients and optimiser state are split over the processes, block by block
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vitrail.errors import ConfigError
from vitrail.train.distributed import World
from vitrail.train.settings import TrainSettings


class Alone:
    """One process: the method as it is."""

    sharded = False

    def __init__(self, method: nn.Module) -> None:
        self.method = self.forward = method

    def step_goes_on(self) -> AbstractContextManager[object]:
        """Around a backward pass after which another one of the same step follows."""
        return nullcontext()

    def whole(self, module: nn.Module) -> nn.Module:
        """A module with all of its weights in this process."""
        return module


class Replicated(Alone):
    """DDP. The inner method keeps its names, so a checkpoint is the same whatever the number of processes."""

    def __init__(self, method: nn.Module, device: str) -> None:
        super().__init__(with_common_statistics(method, device))
        # A token's gradient can have other strides than the token, which costs nothing at its size.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        self.forward: nn.Module = DistributedDataParallel(method)

    def step_goes_on(self) -> AbstractContextManager[object]:
        assert isinstance(self.forward, DistributedDataParallel)
        return self.forward.no_sync()


class Sharded(Alone):
    """FSDP2. One whole copy of the weights is kept beside the parts, to validate and to write models from."""

    sharded = True

    def __init__(self, method: nn.Module, others: Iterable[nn.Module], device: str, size: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(with_common_statistics(method, device))
        for tensor in method.state_dict().values():
            dist.broadcast(tensor, src=0)
        self._copy = copy.deepcopy(method).requires_grad_(False)
        mesh = init_device_mesh(device, (size,))
        for module in (method, *others):
            for block in blocks_of(module):
                fully_shard(block, mesh=mesh)
            fully_shard(module, mesh=mesh)

    def step_goes_on(self) -> AbstractContextManager[object]:
        return _NoSync(self.method)

    def whole(self, module: nn.Module) -> nn.Module:
        found = {name: whole_tensor(tensor) for name, tensor in module.state_dict().items()}
        self._copy.load_state_dict(found)
        return self._copy


class _NoSync:
    """What DDP has as `no_sync`, for FSDP2."""

    def __init__(self, method: nn.Module) -> None:
        from torch.distributed.fsdp import FSDPModule

        assert isinstance(method, FSDPModule)
        self._method = method

    def __enter__(self) -> None:
        self._method.set_requires_gradient_sync(False)

    def __exit__(self, *_: object) -> None:
        self._method.set_requires_gradient_sync(True)


def engine(settings: TrainSettings, method: nn.Module, others: Iterable[nn.Module], world: World) -> Alone:
    """What trains `method` here; `others` are modules of the same shape that follow it, such as its average."""
    if world.size == 1:
        return Alone(method)
    if settings.distribute == "ddp":
        return Replicated(method, settings.device)
    if settings.optim.name == "muon":
        raise ConfigError("Muon needs whole matrices", fix="use optim.name=adamw with distribute=fsdp")
    if getattr(method, "moves_weights", False):  # FSDP would not see it
        raise ConfigError("this method changes weights beside the optimiser", fix="use distribute=ddp")
    if settings.precision == "float16":
        raise ConfigError("float16 does not go with distribute=fsdp", fix="use precision=bfloat16")
    return Sharded(method, others, settings.device, world.size)


def with_common_statistics(method: nn.Module, device: str) -> nn.Module:
    """BatchNorm over the pictures of all processes, where torch has it: on GPUs."""
    return nn.SyncBatchNorm.convert_sync_batchnorm(method) if device == "cuda" else method


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """The repeated parts of a model, each gathered when its turn comes."""
    lists = [part for name, part in module.named_modules() if name.split(".")[-1] == "blocks"]
    return [block for part in lists for block in part.children()]


def split_like(tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors, split as the weights are that they belong to: `fc.weight`, or `fc.weight:exp_avg` of its shape."""
    if not any(hasattr(weight, "to_local") for weight in weights.values()):
        return dict(tensors)
    from torch.distributed.tensor import DTensor, distribute_tensor

    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = weights.get(name.rsplit(":", 1)[0])
        if isinstance(weight, DTensor) and weight.shape == tensor.shape:
            value = tensor.to(weight.device)
            made[name] = distribute_tensor(value, weight.device_mesh, weight.placements, src_data_rank=None)
        else:
            made[name] = tensor
    return made


def whole_tensor(tensor: Tensor) -> Tensor:
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole
