"""The benchmark as a whole, on a tiny model: every cell has every number, and a missing library is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.tiny import BRIEF, TINY
from vitrail.bench import PEERS, bench_models
from vitrail.bench.plan import Cell, Preset, plan, shape
from vitrail.errors import ConfigError


def test_every_cell_has_every_number(result: dict[str, Any]) -> None:
    present = set(result["peers"])
    keys = {(cell["mode"], cell["batch"], cell["threads"]) for cell in result["cells"]}
    assert keys == {("inference", 2, 1), ("training", 2, 1)}
    for cell in result["cells"]:
        assert cell["failed"] == {}
        assert set(cell["peers"]) == present
        assert set(cell["speedup"]) == present - {"vitrail"}
        assert cell["gemm_gflops"]["median"] > 0
        for numbers in cell["peers"].values():
            assert len(numbers["seconds"]["rounds"]) == 2
            assert numbers["seconds"]["q1"] <= numbers["seconds"]["median"] <= numbers["seconds"]["q3"]
            assert numbers["images_per_second"] > 0
            assert numbers["percent_of_peak"]["median"] > 0


def test_memory_is_measured_for_every_library_and_cell(result: dict[str, Any]) -> None:
    assert len(result["memory"]) == len(result["cells"]) * len(result["peers"])
    for row in result["memory"]:
        assert 0 <= row["growth"] < row["total"]
        assert row["source"]


def test_libraries_agree_with_our_logits(result: dict[str, Any]) -> None:
    assert {row["peer"] for row in result["logits"]} == set(result["peers"]) - {"vitrail"}
    for row in result["logits"]:
        assert row["max_difference"] < 1e-4, row
        assert row["largest_logit"] > 0.1, row


def test_result_says_what_it_was_measured_on(result: dict[str, Any]) -> None:
    assert json.loads(json.dumps(result))["system"]["cpu"]
    assert result["versions"].keys() == {"torch", *result["peers"]}
    for key in ("date", "command", "versions", "settings", "notes", "peers", "sizes"):
        assert result[key]


def test_progress_counts_to_the_end(result: dict[str, Any], steps: list[tuple[int, int, str]]) -> None:
    total = steps[0][1]
    assert [done for done, _, _ in steps] == list(range(total + 1))
    assert total == 1 + 2 * len(result["cells"])


def test_missing_library_is_named_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = tmp_path / "timm" / "__init__.py"
    hidden.parent.mkdir()
    hidden.write_text("raise ModuleNotFoundError('No module named timm', name='timm')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = bench_models({"tiny": TINY}, [1], [1], ["inference"], 1, ["timm"], preset=BRIEF)
    assert "timm is not installed" in result["skipped"]["timm"]
    assert set(result["cells"][0]["peers"]) == {"vitrail"}
    assert result["cells"][0]["fastest_peer"] is None


def test_library_that_fails_leaves_the_others_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "timm" / "models" / "vision_transformer.py"
    broken.parent.mkdir(parents=True)
    broken.touch()
    (tmp_path / "timm" / "__init__.py").write_text("__version__ = 'broken'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = bench_models({"tiny": TINY}, [1], [1], ["inference"], 1, ["timm"], preset=BRIEF)
    for place in (result["cells"][0]["failed"]["timm"], result["logits"][0]["failed"], result["memory"][1]["failed"]):
        assert "VisionTransformer" in place
    assert set(result["cells"][0]["peers"]) == {"vitrail"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"peers": ["tim"]}, "did you mean 'timm'"),
        ({"modes": ["sleeping"]}, "modes='sleeping'"),
        ({"batches": [0]}, "at least 1"),
        ({"sizes": ["R50+B/16"]}, "plain model"),
        ({"sizes": ["R18"]}, "plain model"),
        ({"sizes": {"odd": TINY.replace(dim_head=8)}}, "dim_head"),
    ],
)
def test_impossible_wishes_are_refused_at_the_door(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bench_models(**arguments)


def test_plan_keeps_equal_thread_counts_together() -> None:
    cells = plan(["S"], ["inference"], [8, 1], [2, 1])
    assert cells == [Cell("S", "inference", batch, threads) for threads in (1, 2) for batch in (1, 8)]


def test_sizes_are_the_papers() -> None:
    assert (shape("S").dim, shape("S").patch_size, shape("S").image_size) == (384, (16, 16), (224, 224))
    assert (shape("32px").dim, shape("32px").depth, shape("32px").patch_size) == (192, 9, (4, 4))
    assert all(shape(size) for size in Preset().sizes)


def test_import_is_light() -> None:
    packages = ("torch", "rich", *(peer.package for peer in PEERS.values() if peer.name != "vitrail"))
    code = f"import sys, vitrail.bench; print([name for name in {packages} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
