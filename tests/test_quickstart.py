"""docs/quickstart.md, run as it is written, with less time."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
from PIL import Image

from data.tiny_mnist import tiny_mnist, write_mnist
from vitrail.cli.main import main
from vitrail.data.catalog import CATALOG
from vitrail.data.download import Folder

QUICKSTART = (Path(__file__).parent.parent / "docs" / "quickstart.md").read_text(encoding="utf-8")


def hurried(text):
    text = text.replace('draw_shapes(Path("shapes.npz"))', 'draw_shapes(Path("shapes.npz"), train=80, test=40)')
    return re.sub(r"--minutes \d+", "--minutes 0.01", re.sub(r"minutes=\d+", "steps=1", text))


def test_every_block(tmp_path, monkeypatch, capsys):
    """In order, in a folder that holds nothing but photos/."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, "fashion-mnist", tiny_mnist(Folder(write_mnist(tmp_path / "files"))))
    for name, shade in (("cat", 60), ("dog", 180)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            noise = np.random.default_rng(number + shade).integers(shade - 50, shade + 50, (20, 20, 3), np.uint8)
            Image.fromarray(noise).save(tmp_path / "photos" / name / f"{number}.png")
    blocks = re.findall(r"```(bash|python)\n(.*?)```", QUICKSTART, flags=re.DOTALL)
    assert [language for language, _ in blocks] == ["bash", "python", "bash", "python", "python"]
    for language, block in blocks:
        if language == "python":
            exec(compile(hurried(block), "quickstart.md", "exec"), {})
            continue
        for line in hurried(block).splitlines():
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{line}: {capsys.readouterr().err}"
