"""The command line as a user meets it: answers, errors of one line, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import vitrail
from oracles import randomise
from vitrail import Artefact, create_model, load
from vitrail.cli.main import COMMANDS, main


@pytest.fixture
def model_file(tmp_path):
    model = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))
    Artefact(model, classes=("cat", "dog", "[bold]<b>")).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def run(capsys, *words):
    """Exit code, stdout, stderr."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ---- wrong use ------------------------------------------------------------------------------------------------------

WRONG = [
    (["conver"], 2, "there is no command 'conver'; did you mean 'convert'?"),
    (["convert"], 2, "SOURCE"),
    (["convert", "a.pt", "b.npz", "--too", "google"], 2, "Did you mean --to?"),
    (["convert", "a.pt", "b.npz", "--to", "gogle"], 2, "google"),
    (["inspect", "S/17"], 2, "image_size=224 is not a multiple of patch_size=17; use 221 or 238"),
    (["inspect", "vit_smal_patch16_224"], 2, "did you mean 'vit_small_patch16_224'"),
    (["inspect", "nothing.pt"], 3, "nothing.pt: no such file"),
    (["inspect", "hf-hub:a"], 3, "write hf-hub:owner/name"),
    (["walk", "nothing.jpg"], 3, "nothing.jpg"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG])
def test_wrong_use_is_one_line_with_the_remedy(words, code, said, capsys):
    found, out, err = run(capsys, *words)
    assert found == code
    assert out == ""
    assert said in err
    assert err.startswith("vitrail: ")
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(capsys):
    with pytest.raises(Exception, match="no such file"):
        run(capsys, "inspect", "nothing.pt", "--debug")


def test_a_file_name_cannot_forge_a_line(capsys):
    _, _, err = run(capsys, "inspect", "a\nvitrail: all is well\x1b[2J.pt")
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_help_names_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(f" {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert f"vitrail {name}" in out
    assert len(out.splitlines()) > 5


# ---- commands -------------------------------------------------------------------------------------------------------


def test_models(capsys):
    code, out, _ = run(capsys, "models", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["B/16"]["parameters"] == 86_567_656
    assert rows["R50+B/16"]["timm"] == "vit_base_r50_s16_224"
    _, out, _ = run(capsys, "models", "dinov2")
    assert "S/14@518 DINOv2" in out
    assert "vit_base_patch16_224" not in out


def test_inspect_a_file(model_file, capsys):
    code, out, _ = run(capsys, "inspect", model_file, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["classes"] == ["cat", "dog", "[bold]<b>"]
    assert found["config"]["depth"] == 1
    assert found["golden_difference"] <= 1e-5
    assert found["parts"][-1]["parameters"] == found["parameters"]
    assert sum(part["parameters"] for part in found["parts"][:-1]) == found["parameters"]
    _, out, _ = run(capsys, "inspect", model_file)
    assert "3: cat, dog, [bold]<b>" in out
    assert "golden answers" in out


def test_inspect_counts_the_multiply_adds_that_are_done(capsys):
    """The published 17.58 G of B/16, less what the last block saves by computing the class token only."""
    _, out, _ = run(capsys, "inspect", "B/16", "--json")
    assert json.loads(out)["macs"] == pytest.approx(17.58e9 * (1 - 10 / 12 / 12), rel=0.02)


def test_inspect_by_name(capsys):
    code, out, _ = run(capsys, "inspect", "R18")
    assert code == 0
    assert "11,687,720" in out


def test_inspect_notices_a_changed_model(model_file, capsys):
    artefact = load(model_file)
    state = artefact.model.state_dict()
    state["head.bias"] = state["head.bias"] + 1
    with safe_open(model_file, "pt") as file:
        save_file(state, model_file, file.metadata())
    code, _, err = run(capsys, "inspect", model_file)
    assert code == 1
    assert "differ from the stored ones" in err


@pytest.mark.parametrize(("to", "name"), [("google", "m.npz"), ("timm", "folder"), ("huggingface", "hf")])
def test_convert(to, name, model_file, tmp_path, capsys):
    code, out, _ = run(capsys, "convert", model_file, tmp_path / name, "--to", to)
    assert code == 0
    assert out.splitlines()[-1] == str(tmp_path / name)
    code, _, err = run(capsys, "convert", model_file, tmp_path / name, "--to", to)
    assert code == 3
    assert "--overwrite" in err
    code, out, _ = run(capsys, "convert", model_file, tmp_path / name, "--to", to, "--overwrite", "--json")
    assert json.loads(out)["max_difference"] <= 1e-5


def test_convert_with_names_and_a_new_size(tmp_path, capsys):
    save_file(
        randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=2)).state_dict(), tmp_path / "a.safetensors"
    )
    (tmp_path / "names.txt").write_text("crème\nbrûlée\n", encoding="utf-8")
    words = ["convert", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--image-size", "64"]
    code, _, err = run(capsys, *words, "--classes", tmp_path / "names.txt")
    assert code == 0, err
    found = load(tmp_path / "b.safetensors")
    assert found.classes == ("crème", "brûlée")
    assert found.model.config.grid == (4, 4)
    (tmp_path / "names.txt").write_text("one\n")
    code, _, err = run(capsys, *words, "--overwrite", "--classes", tmp_path / "names.txt")
    assert code == 3
    assert "1 class names for 2 outputs" in err


def test_a_half_file_leaves_no_target(model_file, tmp_path, capsys):
    model_file.write_bytes(model_file.read_bytes()[:5000])
    code, _, err = run(capsys, "convert", model_file, tmp_path / "out.npz", "--to", "google")
    assert code == 3
    assert "model.safetensors" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]


def test_a_terminal_without_unicode_and_a_reader_that_leaves():
    walk = [sys.executable, "-m", "vitrail.cli.main", "walk"]
    done = subprocess.run(walk, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert b"16 ? 16" in done.stdout
    with subprocess.Popen(walk, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


# ---- quick to start -------------------------------------------------------------------------------------------------


def measured(code):
    """Run code in a fresh interpreter; its CPU seconds and whether torch was imported."""
    script = f"import sys, os\n{code}\nprint(sum(os.times()[:2]), 'torch' in sys.modules, file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, torch_imported = done.stdout.splitlines()[-1].split()
    return float(seconds), torch_imported == "True"


def test_import_vitrail_does_not_import_torch():
    assert measured("import vitrail; dir(vitrail)")[1] is False


@pytest.mark.parametrize("words", [["--help"], ["convert", "--help"], ["--version"]])
def test_help_is_quick_and_without_torch(words):
    """At most 0.35 s of CPU; the best of three, as other processes share the caches."""
    runs = [measured(f"from vitrail.cli.main import main; main({words!r})") for _ in range(3)]
    assert not any(torch_imported for _, torch_imported in runs)
    assert min(seconds for seconds, _ in runs) <= 0.35


def test_the_public_names_are_all_there():
    for name in vitrail.__all__:
        assert getattr(vitrail, name) is not None
    assert set(vitrail.__all__) <= set(dir(vitrail))
    with pytest.raises(AttributeError):
        _ = vitrail.nothing
    assert torch.is_tensor(vitrail.create_model("Ti/16", depth=1)(torch.zeros(1, 3, 224, 224)))
