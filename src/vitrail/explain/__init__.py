"""Looking inside a model. `vitrail.explain(model, image)` is `vitrail.explain.methods.explain`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package and the function it is named after share the name `vitrail.explain`, so the package can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from vitrail.explain.methods import explain

        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
