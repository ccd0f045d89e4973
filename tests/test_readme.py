"""The README's quickstart and commands, run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.cli.main import main

ROOT = Path(__file__).parent.parent
PACKAGES = "bench|cli|data|deploy|evaluate|explain|lab|methods|model|page|predict|report|serve|train|weights"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line.split("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("vitrail ")]


def in_seconds(text):
    """What is said to take minutes takes seconds here; nothing else is changed."""
    return re.sub(r"minutes([ =])\d+", r"minutes\g<1>0.15", text)


def test_quickstart_and_commands(tmp_path, monkeypatch, capsys):
    """In order, in a folder with some pictures: what the code writes is what the commands use."""
    monkeypatch.chdir(tmp_path)
    write_class_folders(tmp_path / "photos", count=12)
    write_class_folders(tmp_path / "holiday", count=1)
    for code in blocks("python"):
        exec(compile(in_seconds(code), "README.md", "exec"), {})
    for command in commands():
        assert main(shlex.split(in_seconds(command))[1:]) == 0, f"{command}: {capsys.readouterr().err}"
    assert len(commands()) >= 10
    assert (tmp_path / "walk.html").stat().st_size > 10_000
    assert (tmp_path / "runs" / "photos" / "report.html").stat().st_size > 10_000


def write_class_folders(root, count):
    generator = np.random.default_rng(0)
    for number, name in enumerate(("blue", "green", "red")):
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = generator.integers(0, 120, (32, 32, 3), dtype=np.uint8)
            pixels[..., 2 - number] += 100
            Image.fromarray(pixels).save(root / name / f"{i}.png")


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
    for name in re.findall(rf"`((?:{PACKAGES})/[\w./]+\.py)`", text):
        assert (ROOT / "src" / "vitrail" / name).exists(), name
