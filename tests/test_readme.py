"""The README's quickstart and commands, run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from vitrail.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line.split("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("vitrail ")]


def test_quickstart_and_commands(tmp_path, monkeypatch, capsys):
    """In order, in an empty folder: the quickstart writes the file that the commands use."""
    monkeypatch.chdir(tmp_path)
    (quickstart,) = blocks("python")
    exec(compile(quickstart, "README.md", "exec"), {})
    for command in commands():
        assert main(shlex.split(command)[1:]) == 0, f"{command}: {capsys.readouterr().err}"
    assert len(commands()) >= 6
    assert (tmp_path / "walk.html").stat().st_size > 10_000


def test_every_make_target_is_real():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / document).parent / target).exists(), target
    for name in re.findall(r"`((?:model|weights|cli|explain|data|bench)/[\w./]+\.py)`", text):
        assert (ROOT / "src" / "vitrail" / name).exists(), name
