"""The result of a benchmark for people: a table in the terminal, the same in Markdown, and the JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrail.bench.peers import OURS
from vitrail.bench.plan import MODES
from vitrail.bench.summary import overall

if TYPE_CHECKING:
    from rich.console import Console

    from vitrail.bench.model_speed import Progress

Result = Mapping[str, Any]
Line = tuple[str, ...]

NOT_MEASURED = "-"
JSON_FILE, MARKDOWN_FILE = "model-speed.json", "model-speed.md"


class Sheet(NamedTuple):
    """A table as text: a title, the heads of its columns, and its lines in groups that belong together."""

    title: str
    columns: Line
    groups: list[list[Line]]


SPEED_COLUMNS = ("size", "batch", "library", "ms", "quartiles", "images/s", "GFLOP/s", "% of peak", "ours faster by")
MEMORY_COLUMNS = ("size", "mode", "batch", "library", "growth MB", "total MB", "growth, ours = 1")
LOGITS_COLUMNS = ("size", "library", "largest difference", "largest logit")


def sheets(result: Result) -> list[Sheet]:
    """Every number of a result: speed by mode and threads, memory, logits."""
    keys = dict.fromkeys((cell["mode"], cell["threads"]) for cell in result["cells"])
    speed = [_speed_sheet([c for c in result["cells"] if (c["mode"], c["threads"]) == key], *key) for key in keys]
    return [*speed, _memory_sheet(result["memory"]), _logits_sheet(result["logits"])]


def _speed_sheet(cells: Sequence[Result], mode: str, threads: int) -> Sheet:
    peaks = sorted(cell["gemm_gflops"]["median"] for cell in cells)
    yardstick = f"fp32 matrix products reach {peaks[0]:.0f} to {peaks[-1]:.0f} GFLOP/s"
    title = f"{mode}, {threads} thread{'s' * (threads > 1)} ({yardstick})"
    return Sheet(title, SPEED_COLUMNS, [_speed_lines(cell) for cell in cells])


def _speed_lines(cell: Result) -> list[Line]:
    where = (cell["size"], str(cell["batch"]))
    lines = [(*where, name, *_numbers(numbers), _faster(cell, name)) for name, numbers in cell["peers"].items()]
    blank = (NOT_MEASURED,) * (len(SPEED_COLUMNS) - 4)
    return lines + [(*where, name, *blank, f"failed: {why}") for name, why in cell["failed"].items()]


def _numbers(numbers: Result) -> Line:
    seconds = numbers["seconds"]
    return (
        _short(1e3 * seconds["median"]),
        f"{_short(1e3 * seconds['q1'])} to {_short(1e3 * seconds['q3'])}",
        _short(numbers["images_per_second"]),
        _short(numbers["gflops"]),
        f"{numbers['percent_of_peak']['median']:.0f}",
    )


def _short(number: float) -> str:
    """Three digits, more before the point where there are more; never an exponent."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _faster(cell: Result, name: str) -> str:
    if name not in cell["speedup"]:
        return ""
    ratio = cell["speedup"][name]
    fastest = " fastest" if name == cell["fastest_peer"] else ""
    return f"{ratio['median']:.2f}x ({ratio['q1']:.2f} to {ratio['q3']:.2f}){fastest}"


def _memory_sheet(rows: Sequence[Result]) -> Sheet:
    cells = dict.fromkeys((row["size"], row["mode"], row["batch"]) for row in rows)
    groups = [[row for row in rows if (row["size"], row["mode"], row["batch"]) == cell] for cell in cells]
    sources = " / ".join(sorted({row["source"] for row in rows if "source" in row}))
    return Sheet(f"peak memory ({sources})", MEMORY_COLUMNS, [_memory_lines(group) for group in groups])


def _memory_lines(rows: Sequence[Result]) -> list[Line]:
    ours = next((row.get("growth", 0) for row in rows if row["peer"] == OURS), 0)
    return [(row["size"], row["mode"], str(row["batch"]), row["peer"], *_megabytes(row, ours)) for row in rows]


def _megabytes(row: Result, ours: int) -> Line:
    if "failed" in row:
        return NOT_MEASURED, NOT_MEASURED, f"failed: {row['failed']}"
    ratio = f"{row['growth'] / ours:.2f}" if ours else NOT_MEASURED
    return f"{row['growth'] / 1e6:.0f}", f"{row['total'] / 1e6:.0f}", ratio


def _logits_sheet(rows: Sequence[Result]) -> Sheet:
    sizes = dict.fromkeys(row["size"] for row in rows)
    groups = [[_logits_line(row) for row in rows if row["size"] == size] for size in sizes]
    return Sheet("logits beside ours, same weights", LOGITS_COLUMNS, groups)


def _logits_line(row: Result) -> Line:
    if "failed" in row:
        return row["size"], row["peer"], NOT_MEASURED, f"failed: {row['failed']}"
    return row["size"], row["peer"], f"{row['max_difference']:.1e}", f"{row['largest_logit']:.2f}"


def headlines(result: Result) -> list[str]:
    """The machine, the versions, who is missing, and one ratio for each mode."""
    system = result["system"]
    lines = [
        f"{system['cpu']}, {system['cores']} cores, {system['system']}, Python {system['python']}, {result['date']}",
        ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
    ]
    lines += [f"left out: {why}" for why in result["skipped"].values()]
    return lines + [line for mode in MODES if (line := _headline(result["cells"], mode))]


def _headline(cells: Sequence[Result], mode: str) -> str:
    against = {"timm": overall(cells, mode, "timm"), "the fastest other library": overall(cells, mode, None)}
    ratios = [f"{ratio:.2f}x as fast as {who}" for who, ratio in against.items() if ratio]
    return f"{mode}: {OURS} is {', '.join(ratios)} (geometric mean)" if ratios else ""


def render(result: Result, console: Console) -> None:
    """Print every table to a rich console."""
    from rich.markup import escape
    from rich.table import Table

    for sheet in sheets(result):
        table = Table(*sheet.columns, title=sheet.title, title_justify="left")
        for group in sheet.groups:
            for line in group:
                table.add_row(*map(escape, line), style="bold" if OURS in line else None)
            table.add_section()
        console.print(table)
    for headline in headlines(result):
        console.print(headline, highlight=False, markup=False)


def markdown(result: Result) -> str:
    """The same tables for a file."""
    parts = ["# Speed and memory beside other libraries", "\n".join(f"- {line}" for line in headlines(result))]
    parts.append("\n".join(f"- {name}: {note}." for name, note in (result["peers"] | result["notes"]).items()))
    parts.append(f"Measured by `{result['command']}` in {result['seconds'] / 60:.0f} minutes.")
    return "\n\n".join([*parts, *map(_markdown_table, sheets(result))]) + "\n"


def _markdown_table(sheet: Sheet) -> str:
    lines = [sheet.columns, ("---",) * len(sheet.columns), *(line for group in sheet.groups for line in group)]
    return f"## {sheet.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_report(result: Result, folder: str | Path) -> list[Path]:
    """Write the JSON and the Markdown into a folder; returns their paths."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / JSON_FILE).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (target / MARKDOWN_FILE).write_text(markdown(result), encoding="utf-8")
    return [target / JSON_FILE, target / MARKDOWN_FILE]


@contextmanager
def progress_on(console: Console) -> Iterator[Progress]:
    """A progress callback for `bench_models`: a bar in a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield lambda done, total, what: console.print(f"[{done}/{total}] {what}", markup=False, highlight=False)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting")
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
