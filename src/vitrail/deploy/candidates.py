"""What may make a model smaller or faster, as a list to measure. Nothing here is assumed to help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from vitrail.config import Pair, ViTConfig
from vitrail.data.examples import Pixels
from vitrail.deploy.merge_tokens import merging
from vitrail.deploy.onnx import onnx_bytes
from vitrail.deploy.prune import pruned
from vitrail.deploy.quantize import quantised
from vitrail.deploy.resample import at_size, with_patches
from vitrail.weights.artefact import Artefact

EXACT = "ONNX Runtime"
Write = Callable[[Artefact], bytes]


class Candidate(NamedTuple):
    """A way to a smaller or faster file. `artefact` makes the model that it holds, `write` the file."""

    name: str
    artefact: Callable[[], Artefact]
    write: Write
    exact: bool = False  # the same answers are promised, and demanded

    def content(self) -> bytes:
        return self.write(self.artefact())


def candidates(artefact: Artefact, pictures: Pixels) -> Iterator[Candidate]:
    """From the surest to the boldest, so that whatever time there is is spent well. `pictures` are prepared ones."""
    models = {"": lambda: artefact, **_cheaper(artefact, pictures)}
    precisions: dict[str, Write] = {
        "": onnx_bytes,
        "int8": quantised,
        "int8 but fc2": lambda model: quantised(model, keep=("fc2", "head")),
    }
    for model_name, model in models.items():
        for precision, write in precisions.items():
            name = ", ".join(filter(None, (model_name, precision))) or EXACT
            yield Candidate(name, model, write, exact=name == EXACT)


def _cheaper(artefact: Artefact, pictures: Pixels) -> dict[str, Callable[[], Artefact]]:
    """The same weights on fewer tokens, or with fewer of them."""
    config = artefact.model.config
    if not isinstance(config, ViTConfig):
        return {}
    found: dict[str, Callable[[], Artefact]] = {}
    for share in (7 / 8, 6 / 8, 5 / 8):
        size = _fewer(config, share)
        if size != config.image_size:
            found[f"{size[0]}x{size[1]} pixels"] = lambda size=size: at_size(artefact, size)  # type: ignore[misc]
    if config.norm == "pre" and config.positions not in ("rotary", "relative"):
        for share in (25, 12):  # ToMe's own measure: about half or all of the patches are gone at the end
            count = max(1, config.grid[0] * config.grid[1] // share)
            found[f"{count} patches merged a block"] = lambda count=count: merging(artefact, count)  # type: ignore[misc]
    if config.stem == "none" and config.patches == "conv" and min(config.grid) >= 4:
        patch = tuple(side * 5 // 4 for side in config.patch_size)
        size = (config.image_size[0] // patch[0] * patch[0], config.image_size[1] // patch[1] * patch[1])
        name = f"patches of {patch[0]}x{patch[1]}"
        found[name] = lambda: with_patches(artefact, (patch[0], patch[1]), size)
    if config.pool != "attention":
        units = max(8, config.mlp_dim * 3 // 4 // 8 * 8)
        found[f"{units} of {config.mlp_dim} hidden units"] = lambda: pruned(artefact, pictures, mlp_dim=units)
    return found


def _fewer(config: ViTConfig, share: float) -> Pair:
    """About this share of the side, in whole patches."""
    rows, columns = (max(1, round(side * share)) for side in config.grid)
    return rows * config.patch_size[0], columns * config.patch_size[1]
