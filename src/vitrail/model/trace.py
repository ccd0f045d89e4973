"""Looking inside without hooks: the forward pass offers every intermediate by name to a recorder.

`Silent` lets them go, which is the default and costs nothing; `Trace` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from vitrail.errors import ConfigError, did_you_mean


class Silent:
    """Keeps nothing."""

    keeps = False

    def __call__(self, name: str, value: Tensor) -> Tensor:
        del name
        return value

    def inside(self, name: str) -> Silent:
        del name
        return self


SILENT = Silent()


class Trace(Silent, Mapping[str, Tensor]):
    """Every named intermediate: `trace["block.0.attention"]`, or `trace.block[0].attention`."""

    keeps = True

    def __init__(self, values: dict[str, Tensor] | None = None, prefix: str = "") -> None:
        self._values = {} if values is None else values
        self._prefix = prefix

    def __call__(self, name: str, value: Tensor) -> Tensor:
        # A copy: without gradients the model works in place.
        self._values[self._prefix + name] = value.detach().clone()
        return value

    def inside(self, name: str) -> Trace:
        return Trace(self._values, f"{self._prefix}{name}.")

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._values if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str | int) -> Tensor | Trace:  # type: ignore[override]
        full = f"{self._prefix}{name}"
        if full in self._values:
            return self._values[full]
        if any(known.startswith(full + ".") for known in self._values):
            return self.inside(str(name))
        raise ConfigError(f"the trace has no {full!r}", fix=did_you_mean(str(name), set(self)))

    def __getattr__(self, name: str) -> Tensor | Trace:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except ConfigError as error:
            raise AttributeError(str(error)) from None
