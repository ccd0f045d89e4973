"""What a person sees while a run goes on: one bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

LINE_SECONDS = 15.0  # between two plain lines


class Display:
    """Shows stages and steps on stderr, so that stdout stays for answers."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr, highlight=False)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._task: Any = None
        self._line_at = 0.0
        self._last_validation = ""

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def said(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def stage(self, name: str, done: float, note: str = "") -> None:
        """How far a stage is, from 0 to 1."""
        if self._task is None:
            self._task = self._bar.add_task(name, total=1.0, note=note)
        self._bar.update(self._task, description=name, completed=done, note=note)
        now = time.monotonic()
        if not self.console.is_terminal and (now - self._line_at >= LINE_SECONDS):
            self._line_at = now
            self.said(f"{name}: {done:4.0%}  {note}")

    def end_stage(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task, self._line_at = None, 0.0

    def step(self, row: dict[str, Any], steps_left: float) -> None:
        left = f", {steps_left:,.0f} steps to go" if steps_left < 1e9 else ""
        note = f"loss {row['loss']:.3f}, {row['images_per_second']:,.0f} pictures/s{left}{self._last_validation}"
        self.stage("training", row["progress"], note)

    def validated(self, row: dict[str, Any], best: bool) -> None:
        if "accuracy" not in row:
            return
        self._last_validation = f", validation {row['accuracy']:.1%}"
        star = " (best so far)" if best else ""
        self.said(
            f"  {row['progress']:4.0%}  epoch {row['epoch']:.1f}  {row['seconds']:.0f} s  "
            f"validation {row['accuracy']:.2%}{star}"
        )
