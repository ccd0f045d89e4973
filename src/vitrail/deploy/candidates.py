"""What may make a model smaller or faster, as a list to measure. Nothing here is assumed to help."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vitrail.config import Pair, ViTConfig
from vitrail.data.examples import Pixels
from vitrail.deploy.merge_tokens import merging
from vitrail.deploy.onnx import onnx_bytes
from vitrail.deploy.prune import pruned
from vitrail.deploy.quantize import quantised, sensitive
from vitrail.deploy.resample import at_size, with_patches
from vitrail.weights.artefact import Artefact

EXACT = "ONNX Runtime"
Change = Callable[[Artefact], Artefact]
Pictures = Callable[[Artefact], Pixels]  # some of the user's, prepared as a model takes them


class Step(NamedTuple):
    """One change of the model. Two of a kind exclude each other; of several kinds they can be combined."""

    kind: str  # one of ORDER
    name: str
    change: Change


class Precision(NamedTuple):
    """How the file is written."""

    name: str
    write: Callable[[Artefact], bytes]


# Pruning comes first: it asks the model as it was trained what matters.
ORDER = ("units", "heads", "tokens", "merging")
FLOATS = Precision("", onnx_bytes)


class Candidate(NamedTuple):
    """A way to a smaller or faster file: the original, changed, and written."""

    original: Artefact
    steps: tuple[Step, ...] = ()
    precision: Precision = FLOATS

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (*(step.name for step in self.steps), self.precision.name))) or EXACT

    @property
    def exact(self) -> bool:
        """The same answers are promised, and demanded."""
        return self.name == EXACT

    def artefact(self) -> Artefact:
        """The model that the file holds."""
        made = self.original
        for step in self.steps:
            made = step.change(made)
        return made

    def content(self) -> bytes:
        return self.precision.write(self.artefact())


def together(one: Candidate, other: Candidate) -> Candidate | None:
    """Both at once; None where they exclude each other."""
    kinds = [step.kind for step in (*one.steps, *other.steps)]
    if len(set(kinds)) < len(kinds) or FLOATS not in (one.precision, other.precision):
        return None
    steps = sorted((*one.steps, *other.steps), key=lambda step: ORDER.index(step.kind))
    return Candidate(one.original, tuple(steps), other.precision if one.precision is FLOATS else one.precision)


def singles(artefact: Artefact, pictures: Pictures) -> list[Candidate]:
    """Each way alone, from the surest to the boldest, so that whatever time there is is spent well."""
    precisions = (
        Precision("int8", quantised),
        Precision("int8 but fc2", lambda model: quantised(model, keep=("fc2", "head"))),
        Precision("int8, calibrated", lambda model: _calibrated(model, pictures(model))),
    )
    rounded = [Candidate(artefact, precision=precision) for precision in precisions]
    config = artefact.model.config
    if not isinstance(config, ViTConfig):
        return rounded
    steps = (*_fewer_tokens(config), *_merging(config), *_pruning(config, pictures))
    return [*rounded, *(Candidate(artefact, (step,)) for step in steps)]


def _calibrated(artefact: Artefact, pictures: Pixels) -> bytes:
    return quantised(artefact, pictures=pictures, keep=sensitive(artefact, pictures))


def _fewer_tokens(config: ViTConfig) -> list[Step]:
    """Smaller pictures, or larger patches."""
    sizes = {_fewer(config, share) for share in (7 / 8, 6 / 8, 5 / 8)} - {config.image_size}
    found = [Step("tokens", f"{size[0]}x{size[1]} pixels", _to_size(size)) for size in sorted(sizes, reverse=True)]
    if config.stem == "none" and config.patches == "conv" and min(config.grid) >= 4:
        rows, columns = (side * 5 // 4 for side in config.patch_size)
        size = (config.image_size[0] // rows * rows, config.image_size[1] // columns * columns)
        name = f"patches of {rows}x{columns}"
        found.append(Step("tokens", name, lambda artefact: with_patches(artefact, (rows, columns), size)))
    return found


def _merging(config: ViTConfig) -> list[Step]:
    """ToMe's own measure: about a quarter, half or all of the patches are gone at the end."""
    if config.norm != "pre" or config.positions in ("rotary", "relative"):
        return []
    counts = sorted({max(1, config.grid[0] * config.grid[1] // share) for share in (50, 25, 12)})
    return [Step("merging", f"{count} patches merged a block", _to_merge(count)) for count in counts]


def _pruning(config: ViTConfig, pictures: Pictures) -> list[Step]:
    if config.pool == "attention":
        return []
    found = [fewer_units(config, 3 / 4, pictures)]
    if config.heads > 1:
        heads = config.heads - max(1, config.heads // 6)
        name = f"{heads} of {config.heads} heads"
        found.append(Step("heads", name, lambda artefact: pruned(artefact, pictures(artefact), heads=heads)))
    return found


def fewer_units(config: ViTConfig, share: float, pictures: Pictures) -> Step:
    """This share of the hidden units of every MLP."""
    units = max(8, int(config.mlp_dim * share) // 8 * 8)
    name = f"{units} of {config.mlp_dim} hidden units"
    return Step("units", name, lambda artefact: pruned(artefact, pictures(artefact), mlp_dim=units))


def _to_size(size: Pair) -> Change:
    return lambda artefact: at_size(artefact, size)


def _to_merge(count: int) -> Change:
    return lambda artefact: merging(artefact, count)


def _fewer(config: ViTConfig, share: float) -> Pair:
    """About this share of the side, in whole patches."""
    rows, columns = (max(1, round(side * share)) for side in config.grid)
    return rows * config.patch_size[0], columns * config.patch_size[1]
