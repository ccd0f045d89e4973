"""Name tables: how tensors of a foreign layout become ours and back, strictly.

A `Row` names one of our parameters, the foreign tensor or tensors it is made of, and how their numbers are arranged.
`{i}` stands for the number of a block, `{p}` for weight and bias. A tensor that no row names is an error that lists
it; so is a row without its tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vitrail.errors import WeightsError

Tensors = Mapping[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Arrangement:
    """How the numbers are laid out on either side."""

    to_ours: Callable[..., Tensor]
    to_theirs: Callable[[Tensor], tuple[Tensor, ...]]


SAME = Arrangement(lambda x: x, lambda x: (x,))
TRANSPOSED = Arrangement(lambda x: x.T, lambda x: (x.T,))  # flax kernels are (in, out)
HWIO = Arrangement(lambda x: x.permute(3, 2, 0, 1), lambda x: (x.permute(2, 3, 1, 0),))  # flax convolutions
STACKED = Arrangement(lambda *x: torch.cat(x), lambda x: x.chunk(3))  # q, k and v apart on their side
FLAT = Arrangement(lambda x: x.flatten(), lambda x: (x,))  # vectors that may come with dimensions of one


def reshaped(ours: tuple[int, ...], theirs: tuple[int, ...]) -> Arrangement:
    return Arrangement(lambda x: x.reshape(ours), lambda x: (x.reshape(theirs),))


@dataclass(frozen=True)
class Row:
    ours: str
    theirs: str | tuple[str, ...]
    arrangement: Arrangement = SAME

    def sources(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs


def expand(rows: Iterable[Row], depth: int) -> Iterator[Row]:
    """Write out `{i}` for every block and `{p}` for weight and bias."""
    for row in rows:
        for i in range(depth) if "{i}" in row.ours else [0]:
            for p in ("weight", "bias") if "{p}" in row.ours else [""]:
                names = tuple(name.replace("{i}", str(i)).replace("{p}", p) for name in (row.ours, *row.sources()))
                yield Row(names[0], names[1:], row.arrangement)


def to_ours(rows: Iterable[Row], tensors: Tensors, dropped: Iterable[str] = ()) -> dict[str, Tensor]:
    """A foreign state dict as ours. Tensors whose names start with one of `dropped` are no part of the model."""
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    missing: list[str] = []
    for row in rows:
        names = row.sources()
        missing += [name for name in names if name not in tensors]
        if not missing:
            state[row.ours] = row.arrangement.to_ours(*(tensors[name] for name in names)).contiguous()
        used.update(names)
    prefixes = tuple(dropped)
    unexpected = [name for name in tensors if name not in used and not name.startswith(prefixes)]
    check_names(missing, unexpected)
    return state


def to_theirs(rows: Iterable[Row], state: Tensors) -> dict[str, Tensor]:
    """Our state dict under foreign names; a tensor of ours that the layout has no room for is an error."""
    table = {row.ours: row for row in rows}
    check_names([name for name in table if name not in state], [name for name in state if name not in table])
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        row = table[name]
        pieces = row.arrangement.to_theirs(tensor)
        found |= {theirs: piece.contiguous() for theirs, piece in zip(row.sources(), pieces, strict=True)}
    return found


def fold_class_position(cls_token: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """A class token that has taken up its own position, and the positions of the patches alone."""
    return cls_token + positions[:, :1], positions[:, 1:].contiguous()


def check_names(missing: list[str], unexpected: list[str]) -> None:
    if missing or unexpected:
        said = [f"missing {_listed(missing)}"] if missing else []
        said += [f"unexpected {_listed(unexpected)}"] if unexpected else []
        raise WeightsError("the tensors do not fit: " + "; ".join(said))


def _listed(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more
