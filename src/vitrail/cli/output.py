"""What commands print: one JSON document for programs, tables for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(value: Any) -> None:
    """One document on stdout, and nothing else."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def console() -> Console:
    """Plain lines where stdout is no terminal; wide enough there that tables are not cut."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    made = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0)
    )
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def show_end(folder: Path, seconds: float, following: str) -> None:
    """The last lines of a run: how long it took, what to type next, and where it is. Never wrapped, to be copied."""
    took = f"took {seconds / 60:.1f} minutes; report: {folder / 'report.html'}"
    console().print(Text(f"{took}\nnext: {following}\n{folder}"), soft_wrap=True)


def millions(count: int) -> str:
    return f"{count / 1e6:,.1f} M" if count >= 1e5 else f"{count:,}"


def times(sides: tuple[int, int] | list[int]) -> str:
    return f"{sides[0]}x{sides[1]}"
