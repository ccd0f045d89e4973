"""The example of a client, against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from serve.running import picture

CLIENT = Path(__file__).parents[2] / "examples" / "client.py"


def test_the_example_answers_and_names_what_cannot_be_read(running, predictor, tmp_path):
    (tmp_path / "good.png").write_bytes(picture(1))
    (tmp_path / "bad.png").write_bytes(b"words")
    words = [sys.executable, CLIENT, running.url, tmp_path / "good.png", tmp_path / "bad.png"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert predictor.predict(picture(1)).label in done.stdout
    assert "bad.png: this is text" in done.stderr
