"""Commands as processes of their own, without the cost of importing torch for each: one process imports, then forks.

As a script, it reads a line of JSON for each command, forks a child that runs it, and answers with the child's number;
asked to wait for a child, it answers with how that ended. `Forge` is the other end.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Child:
    """A running command."""

    def __init__(self, forge: Forge, number: int, said: Path) -> None:
        self._forge, self.number, self._said = forge, number, said
        self._code: int | None = None

    def kill(self, signal: int) -> None:
        os.kill(self.number, signal)

    def wait(self) -> int:
        """Its exit code; minus the signal that ended it."""
        if self._code is None:
            self._code = int(self._forge.ask({"wait": self.number, "patience": None}))
        return self._code

    def ended(self) -> bool:
        """Whether it has, without waiting."""
        if self._code is None:
            answer = self._forge.ask({"wait": self.number, "patience": 0})
            self._code = None if answer is None else int(answer)
        return self._code is not None

    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, happened: Callable[[], bool], every: float = 0.0003) -> bool:
        """Whether it happened while the command was running."""
        looks = 0
        while not happened():
            looks += 1
            if looks % 50 == 0 and self.ended():
                return happened()
            time.sleep(every)
        return True


class Forge:
    """Starts commands. `folder` is where they run and where their output goes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(
        self, *words: object, limits: dict[str, int] | None = None, environment: dict[str, str] | None = None
    ) -> Child:
        """`vitrail WORDS`; `limits` as the resource module names them: {"RLIMIT_FSIZE": 4096}."""
        self._count += 1
        said = self._folder / f"said-{self._count}"
        more = {"limits": limits or {}, "environment": environment or {}}
        return Child(self, self.ask({"words": [str(word) for word in words], "said": str(said), **more}), said)

    def memory(self) -> int:
        """Bytes of address space that a command begins with."""
        self.ask({"wait": 0, "patience": 0})  # everything is imported
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[0])
        return pages * resource.getpagesize()

    def run(self, *words: object, limits: dict[str, int] | None = None) -> Child:
        """The same, and wait for its end."""
        child = self.start(*words, limits=limits)
        child.wait()
        return child


def _serve() -> None:
    import torch._dynamo  # noqa: F401 # which torch imports when an optimiser is made

    import vitrail.cli.train
    import vitrail.train.job  # noqa: F401
    from vitrail.cli.main import main

    ended: dict[int, int] = {0: 0}
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = _wait(question["wait"], question["patience"], ended)
        else:
            answer = os.fork()
            if not answer:
                _become(question, main)
        print(json.dumps(answer), flush=True)


def _wait(number: int, patience: float | None, ended: dict[int, int]) -> int | None:
    if number not in ended:
        found, status = os.waitpid(number, os.WNOHANG if patience is not None else 0)
        if found:
            ended[number] = os.waitstatus_to_exitcode(status)
    return ended.get(number)


def _become(question: dict[str, Any], main: Callable[[list[str]], int]) -> None:
    """Run the command in this process, and end it."""
    code = 70  # a traceback
    try:
        file = os.open(question["said"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for stream, descriptor in enumerate((nothing, file, file)):
            os.dup2(descriptor, stream)
        for name, limit in question["limits"].items():
            resource.setrlimit(getattr(resource, name), (limit, resource.RLIM_INFINITY))
        os.environ.update(question["environment"])
        code = main(question["words"])
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
