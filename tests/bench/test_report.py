"""Tables, Markdown and files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from vitrail.bench import markdown, progress_on, render, write_report
from vitrail.bench.report import sheets


def printed(result: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=160)
    render(result, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_has_a_line_for_every_library_and_cell(result: dict[str, Any]) -> None:
    lines = [line for sheet in sheets(result) for group in sheet.groups for line in group]
    libraries, cells = len(result["peers"]), len(result["cells"])
    assert len(lines) == 2 * libraries * cells + len(result["logits"])
    text = printed(result)
    assert text.count("timm") >= 2 * cells
    assert "training, 1 thread (fp32 matrix products reach" in text


def test_lines_are_as_wide_as_their_heads(result: dict[str, Any]) -> None:
    for sheet in sheets(result):
        assert all(len(line) == len(sheet.columns) for group in sheet.groups for line in group)


def test_failures_are_printed_not_hidden(result: dict[str, Any]) -> None:
    cell = {**result["cells"][0], "failed": {"timm": "out of [memory]"}, "peers": {}, "speedup": {}}
    memory = [{**result["memory"][0], "failed": "ended"}]
    text = printed({**result, "cells": [cell], "memory": memory, "skipped": {"timm": "timm is not installed"}})
    assert "failed: out of [memory]" in text
    assert "failed: ended" in text
    assert "left out: timm is not installed" in text


def test_markdown_has_the_same_tables(result: dict[str, Any]) -> None:
    text = markdown(result)
    for sheet in sheets(result):
        assert f"## {sheet.title}" in text
        assert all(f"| {' | '.join(line)} |" in text for group in sheet.groups for line in group)


def test_report_is_two_files(result: dict[str, Any], tmp_path: Path) -> None:
    data, text = write_report(result, tmp_path / "benchmarks")
    assert json.loads(data.read_text()) == json.loads(json.dumps(result))
    assert text.read_text() == markdown(result)


def test_progress_is_plain_lines_away_from_a_terminal() -> None:
    console = Console(file=io.StringIO())
    with progress_on(console) as progress:
        progress(1, 4, "S [training]")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "[1/4] S [training]\n"


def test_progress_is_a_bar_in_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    with progress_on(console) as progress:
        progress(1, 4, "S training")
    assert isinstance(console.file, io.StringIO)
    assert "S training" in console.file.getvalue()
