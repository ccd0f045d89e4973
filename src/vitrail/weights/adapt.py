"""The same weights for another task: another image size, other classes, other channels. And the strict last step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitrail.config import Pair, ViTConfig, pair
from vitrail.errors import WeightsError
from vitrail.model import Model, build
from vitrail.model.positions import resize_grid, resize_positions
from vitrail.model.sizes import ModelConfig

State = dict[str, Tensor]


def adapt(
    config: ModelConfig,
    state: State,
    *,
    image_size: int | Pair | None = None,
    num_classes: int | None = None,
    channels: int | None = None,
) -> tuple[ModelConfig, State]:
    """A configuration and state changed together; what is not asked for stays as it is."""
    if image_size is not None:
        config, state = resize_images(config, state, pair("image_size", image_size))
    if num_classes is not None and num_classes != config.num_classes:
        config, state = change_classes(config, state, num_classes)
    if channels is not None and channels != config.channels:
        config, state = change_channels(config, state, channels)
    return config, state


def new_task(
    config: ModelConfig, state: State, *, image_size: Pair, num_classes: int, channels: int, **parts: Any
) -> tuple[ModelConfig, State]:
    """For fine-tuning: adapted, other `parts` (pooling, layers read) where asked, and a fresh head at zero."""
    config, state = adapt(config, state, image_size=image_size, channels=channels)
    return change_classes(config.replace(**parts), state, num_classes)


def resize_images(config: ModelConfig, state: State, size: Pair) -> tuple[ModelConfig, State]:
    """Positions interpolated in 2-D to the grid of the new size, as the paper fine-tunes at higher resolution (3.2)."""
    new = config.at_size(size)
    if not isinstance(config, ViTConfig) or not isinstance(new, ViTConfig) or config.grid == new.grid:
        return new, state
    return new, {name: _resized(name, tensor, config, new) for name, tensor in state.items()}


def _resized(name: str, tensor: Tensor, old: ViTConfig, new: ViTConfig) -> Tensor:
    (rows, columns), (new_rows, new_columns) = old.grid, new.grid
    if name.endswith("attn.positions.table"):
        return resize_grid(tensor, (2 * rows - 1, 2 * columns - 1), (2 * new_rows - 1, 2 * new_columns - 1))
    if name != "pos_embed":
        return tensor
    if old.positions == "learned-2d":
        by_row, by_column = tensor.split([rows, columns], dim=1)
        return torch.cat(
            [resize_grid(by_row, (rows, 1), (new_rows, 1)), resize_grid(by_column, (1, columns), (1, new_columns))],
            dim=1,
        )
    return resize_positions(tensor, old.grid, new.grid)


def change_classes(config: ModelConfig, state: State, classes: int) -> tuple[ModelConfig, State]:
    """The whole old head is removed; the new one is a single zero-initialised linear layer (paper, 3.1)."""
    body = {name: tensor for name, tensor in state.items() if not name.startswith(("head.", "pre_logits."))}
    changes: dict[str, Any] = {"num_classes": classes}
    if isinstance(config, ViTConfig):
        changes |= {"head": "linear", "head_dim": None}
    config = config.replace(**changes)
    return config, body | _fresh_head(config, body)


def _fresh_head(config: ModelConfig, body: Mapping[str, Tensor]) -> State:
    with torch.device("meta"):
        expected = build(config).state_dict()
    like = next(iter(body.values()))
    return {
        name: torch.zeros(tensor.shape, dtype=like.dtype, device=like.device)
        for name, tensor in expected.items()
        if name.startswith("head.")
    }


def change_channels(config: ModelConfig, state: State, channels: int) -> tuple[ModelConfig, State]:
    """The first kernel summed to one channel or repeated to many, scaled so that activations keep their size."""
    if isinstance(config, ViTConfig) and config.patches == "linear":
        raise WeightsError("channels of flattened patches cannot be changed", fix="use patches='conv' weights")
    name = _first_kernel(state)
    kernel = state[name].float()
    if channels == 1:
        changed = kernel.sum(dim=1, keepdim=True)
    else:
        repeats = -(-channels // kernel.shape[1])
        changed = kernel.repeat(1, repeats, 1, 1)[:, :channels] * (kernel.shape[1] / channels)
    return config.replace(channels=channels), {**state, name: changed.to(state[name].dtype)}


def _first_kernel(state: State) -> str:
    """The convolution that sees the image: a stem's first, else the patch projection."""
    candidates = ("patch_embed.backbone.stem.conv.weight", "patch_embed.backbone.conv.weight", "stem.conv.weight")
    stems = [name for name in candidates if name in state]
    stems += [n for n in state if n.startswith("patch_embed.backbone.") and state[n].dim() == 4][:1]
    return stems[0] if stems else "patch_embed.proj.weight"


def build_with(config: ModelConfig, state: State) -> Model:
    """The model of a configuration with exactly these weights: none missing, none left over, every shape right."""
    with torch.device("meta"):  # no time or memory for weights that are replaced at once
        model = build(config)
    check_fit(model, state)
    model.load_state_dict({name: _own(tensor) for name, tensor in state.items()}, assign=True)
    return model.eval()


def _own(tensor: Tensor) -> Tensor:
    """In full precision and in aligned memory: a tensor mapped from a file may start anywhere, and then sums come
    out otherwise in the last digit, and slower."""
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()


def check_fit(model: Model, state: Mapping[str, Tensor]) -> None:
    """All differences between a model and a state dict in one error."""
    expected = model.state_dict()
    said = [f"missing {name}" for name in expected if name not in state]
    said += [f"unexpected {name}" for name in state if name not in expected]
    said += [
        f"{name} is {_size(state[name])}, expected {_size(tensor)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    if said:
        more = f" and {len(said) - 6} more" if len(said) > 6 else ""
        raise WeightsError("the weights do not fit the model: " + ", ".join(said[:6]) + more)


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
