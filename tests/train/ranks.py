"""Several processes that train together, forked from one that has imported everything.

As a script, it reads a line of JSON for each run: what to do, and in how many processes. `Ranks` is the other end.
Every process leaves what it came to in a file, and ends with code 0, 130 where it was interrupted, or 1.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE = 300  # seconds, after which a process that hangs is ended, and its test fails


class Ranks:
    """Starts runs of `world` processes in `folder`."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, folder: Path, world: int, code: int = 0, **wishes: Any) -> list[dict[str, Any]]:
        """What each process came to; all of them must end with `code`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        folder.mkdir(parents=True, exist_ok=True)
        question = {"folder": str(folder), "world": world, "wishes": wishes}
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        codes = json.loads(self._process.stdout.readline())
        assert codes == [code] * world, (folder / "said-0").read_text() + (folder / f"said-{world - 1}").read_text()
        return [json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(world)]


def _serve() -> None:
    warnings.simplefilter("error")  # after numpy and torch are there
    import torch._dynamo
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.distributed.tensor  # noqa: F401

    from train import tiny  # noqa: F401

    for line in sys.stdin:
        question = json.loads(line)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(question["world"]):
            child = os.fork()
            if not child:
                _become(rank, port, question)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


def _become(rank: int, port: int, question: dict[str, Any]) -> None:
    signal.alarm(PATIENCE)
    folder, code = Path(question["folder"]), 1
    said = os.open(folder / f"said-{rank}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(question["world"])}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        code = _train(folder, rank, **question["wishes"])
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stderr.flush()
        os._exit(code)


def _train(folder: Path, rank: int, stop: list[int] | None = None, seconds: float = 0.0, **wishes: Any) -> int:
    """A tiny run; `stop`: which process gets SIGTERM after which step; `seconds`: a budget by clocks that disagree."""
    import torch

    from vitrail.errors import EXIT_INTERRUPTED
    from vitrail.train.budget import Seconds
    from vitrail.train.distributed import joined
    from vitrail.train.loop import Interrupted

    torch.set_num_threads(1)
    code = 0
    with joined():
        pace = Seconds(seconds, Clock(1.0 + rank)) if seconds else None
        trainer = _trainer(folder, pace, **wishes)
        trainer.resume()
        if stop is not None and stop[0] == rank:
            trainer.watcher = StopAfter(trainer.watcher, stop[1])
        try:
            trainer.fit()
        except Interrupted:
            code = EXIT_INTERRUPTED
        weights = {name: tensor.tolist() for name, tensor in trainer.best_module().state_dict().items()}
    steps = trainer.watcher.steps
    found = {"losses": [row["loss"] for row in steps], "pictures": trainer.state.pictures, "weights": weights}
    found |= {"step": trainer.state.step, "validations": [row["step"] for row, _ in trainer.watcher.validations]}
    trainer.run.close()
    (folder / f"result-{rank}.json").write_text(json.dumps(found))
    return code


def _trainer(folder: Path, pace: Any, method: str | None = None, bad: int = 0, **changes: Any) -> Any:
    from train import tiny
    from vitrail.train.distributed import world
    from vitrail.train.run import Run

    settings = tiny.settings(**(exact() | changes))
    trainer = tiny.trainer(folder, settings, pace, pictures=pictures(bad), method=_method(method, settings))
    if not world().first:
        trainer.run = Run.follow(folder)
    return trainer


def _method(name: str | None, settings: Any) -> Any:
    """A method of the registry around the tiny encoder; labelled training with weights for classes; None: plain."""
    import torch

    from vitrail.methods.registry import METHODS
    from vitrail.methods.supervised import Supervised
    from vitrail.model import build

    torch.manual_seed(settings.seed)
    if name is None:
        return None
    if name == "weighted":
        return Supervised(build(settings.model), 3, settings.regularise, settings.seed, torch.tensor([0.2, 1.0, 3.0]))
    kind = METHODS[name]
    encoder = build(settings.model.replace(num_classes=0, any_size=True, patch_size=4))
    return kind.build(encoder, kind.settings(), settings.image, settings.seed)


def exact() -> dict[str, Any]:
    """Nothing draws from each process's own stream, and rounding does not grow: at a high rate it soon would."""
    from train import tiny

    model = tiny.settings().model.replace(dropout=0.0).to_dict()
    optim = tiny.settings().optim.replace(lr=1e-3).to_dict()
    return {"model": model, "optim": optim, "regularise": {}, "budget": {"steps": 20}, "save_steps": 5}


def pictures(bad: int) -> Any:
    """The tiny pictures, of which the first `bad` cannot be opened."""
    from train import tiny
    from vitrail.data.examples import ArrayPictures
    from vitrail.errors import ImageError

    class Damaged(ArrayPictures):
        def read(self, index: int, *arguments: Any, **words: Any) -> Any:
            if index < bad:
                raise ImageError("damaged", where=index)
            return super().read(index, *arguments, **words)

    examples = tiny.examples()
    pixels = np.stack([examples.pictures.read(index) for index in range(len(examples))])
    return examples.replace(pictures=Damaged(pixels))


class Clock:
    """Counts by itself: so many seconds each time it is looked at."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


class StopAfter:
    """Sends this process a signal after some step, as a supervisor would."""

    def __init__(self, watcher: Any, step: int) -> None:
        self._watcher, self._at = watcher, step

    def step(self, row: dict[str, Any], steps_left: float) -> None:
        self._watcher.step(row, steps_left)
        if row["step"] == self._at:
            os.kill(os.getpid(), signal.SIGTERM)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watcher, name)


if __name__ == "__main__":
    _serve()
