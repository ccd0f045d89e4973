"""One process that starts commands, and one run that nothing disturbed, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability import tiny_runs
from reliability.forge import Forge


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    with Forge(tmp_path_factory.mktemp("forge")) as forge:
        yield forge


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_runs.write_pictures(tmp_path_factory.mktemp("pictures") / "tiny.npz")


@pytest.fixture(scope="session")
def undisturbed(forge: Forge, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run. Its name is that of every run compared with it."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = forge.run(*tiny_runs.words(pictures, out))
    assert done.wait() == 0, done.said()
    return out
