"""Opening weight files: good ones of all kinds, hostile ones by every load path (M1), and faults of the file system."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vitrail.errors import FileError, UnsafeFileError, WeightsError
from vitrail.weights.safe import npz_header, read_tensors, safetensors_header, write_safetensors
from weights import watched_loads
from weights.forging import Call, checkpoint, safetensors, torch_saved
from weights.hostile_files import HARMLESS_TO_LIST, MAKERS, NOT_UNSAFE_ONLY_WRONG, write_hostile_files

SECONDS = 5.0
ALLOWANCE = 48 << 20  # beside twice the file: bounded tables (at most 500,000 small objects) and allocator slack


def tensors_of_every_kind() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    floats = torch.randn(3, 4, 5, generator=generator)
    integers = {str(t): (floats * 9).to(t) for t in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)}
    reals = {str(t): floats.to(t) for t in (torch.float64, torch.float32, torch.float16)}
    odd = {"bool": floats > 0, "zero_d": torch.tensor(3.5), "empty": torch.empty(0, 4), "blocks/0.weight": floats[0]}
    return {**integers, **reals, **odd}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
        assert type(found[name]) is torch.Tensor
        assert not found[name].requires_grad


def saved(tmp_path: Path, content: Any, name: str = "file.pt") -> Path:
    path = tmp_path / name
    torch.save(content, path)
    return path


def test_safetensors_round_trip_with_views_and_shared_storages(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {**tensors_of_every_kind(), "bf16": base.bfloat16(), "view": base.t(), "row": base[1], "again": base}
    write_safetensors(tmp_path / "file.safetensors", tensors, {"config": "{}", "classes": "chat, chien"})
    weights = read_tensors(tmp_path / "file.safetensors")
    assert_same(weights.tensors, tensors)
    assert (weights.kind, weights.metadata) == ("safetensors", {"config": "{}", "classes": "chat, chien"})
    metadata, listing = safetensors_header(str(tmp_path / "file.safetensors"))
    assert metadata == weights.metadata
    assert listing == {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_equals_numpy(tmp_path: Path, save: Any) -> None:
    arrays = {name: tensor.numpy() for name, tensor in tensors_of_every_kind().items()}
    arrays["fortran"] = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    save(tmp_path / "file.npz", **arrays)
    weights = read_tensors(tmp_path / "file.npz")
    assert weights.kind == "npz"
    assert_same(weights.tensors, {name: torch.from_numpy(array) for name, array in arrays.items()})
    assert npz_header(tmp_path / "file.npz")["fortran"] == (torch.float64, (2, 3, 4))


def test_npz_of_jax_bfloat16(tmp_path: Path) -> None:
    values = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    np.savez(tmp_path / "file.npz", w=values.view(torch.int16).numpy().view("V2"))
    assert_same(read_tensors(tmp_path / "file.npz").tensors, {"w": values})


def test_torch_equals_torch_load(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {**tensors_of_every_kind(), "bf16": base.bfloat16(), "view": base.t(), "row": base[1], "tied": base}
    weights = read_tensors(saved(tmp_path, OrderedDict(tensors)))
    assert weights.kind == "torch"
    assert_same(weights.tensors, tensors)


def test_state_dict_of_a_module_and_bare_parameters(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    expected = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    assert_same(read_tensors(saved(tmp_path, module.state_dict())).tensors, expected)
    parameters = dict(module.named_parameters())
    assert_same(read_tensors(saved(tmp_path, parameters)).tensors, {k: v.detach() for k, v in parameters.items()})


@pytest.mark.parametrize("name", ["modèle vit.pt", ".hidden.pt", "v1.2:best.pth", "no suffix"])
def test_torch_names_its_records_after_the_file(tmp_path: Path, name: str) -> None:
    assert_same(read_tensors(saved(tmp_path, {"w": torch.ones(2)}, name)).tensors, {"w": torch.ones(2)})


def test_npz_names_of_tensorflow(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **{"dense/kernel:0": np.ones(2)})
    assert list(read_tensors(tmp_path / "w.npz").tensors) == ["dense/kernel:0"]


def training_checkpoint(key: str) -> dict[str, Any]:
    module = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    return {key: module.state_dict(), "optimizer": optimiser.state_dict(), "epoch": 3, "arch": "vit", "best": None}


@pytest.mark.parametrize("key", ["model", "state_dict", "teacher", "ema"])
def test_wrapped_state_dict_is_unwrapped(tmp_path: Path, key: str) -> None:
    content = training_checkpoint(key)
    assert_same(read_tensors(saved(tmp_path, content)).tensors, dict(content[key]))


def test_usual_wrapper_wins_and_nested_dictionaries_are_joined(tmp_path: Path) -> None:
    ones, zeros = torch.ones(2), torch.zeros(2)
    content = {"student": {"w": zeros}, "teacher": {"a": {"w": ones}, "b": zeros}}
    assert_same(read_tensors(saved(tmp_path, content)).tensors, {"b": zeros, "a.w": ones})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"student": {"w": torch.ones(1)}, "ema": {"w": torch.ones(1)}}, "several state dicts"),
        ({"model": {"w": torch.ones(1), "step": 3}}, "'step' is not a tensor but int"),
        ({"w": torch.ones(1), "names": ["a"]}, "'names' is not a tensor but list"),
        ({"w": torch.ones(1), 7: torch.ones(1)}, "'7' is not the name"),
        ({"epoch": 3}, "no dictionary of tensors"),
        ([torch.ones(1)], "no dictionary of tensors"),
        ({"model": {}}, "no tensors"),
        ({"w": torch.tensor([1.0, float("inf")])}, "'w' holds NaN or infinity"),
    ],
)
def test_what_is_no_state_dict_is_named(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        read_tensors(saved(tmp_path, content))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_values_are_refused_unless_allowed(tmp_path: Path, dtype: torch.dtype, bad: float) -> None:
    values = torch.zeros(100, dtype=dtype)
    values[37] = bad
    save_file({"fine": torch.ones(2), "block.w": values}, tmp_path / "w.safetensors")
    with pytest.raises(WeightsError, match=r"block\.w"):
        read_tensors(tmp_path / "w.safetensors")
    assert len(read_tensors(tmp_path / "w.safetensors", allow_nonfinite=True).tensors) == 2


def test_words_that_name_code_are_only_words(tmp_path: Path) -> None:
    words = {"auto_map": "evil.Model", "trust_remote_code": "true", "weights_only": "false", "_target_": "os.system"}
    write_safetensors(tmp_path / "w.safetensors", {"w": torch.ones(1)}, words)
    assert read_tensors(tmp_path / "w.safetensors").metadata == words


def test_memory_of_large_files_is_at_most_twice_their_size(tmp_path: Path) -> None:
    large = torch.rand(8 << 20)
    write_safetensors(tmp_path / "w.safetensors", {"w": large})
    np.savez(tmp_path / "w.npz", w=large.numpy())
    saved(tmp_path, {"w": large}, "w.pt")
    for row in watched(tmp_path, "read_tensors"):
        assert row["error"] is None
        assert row["memory"] <= 2 * row["size"], row


# M1: hostile files


def watched(folder: Path, *names: str) -> list[dict[str, Any]]:
    """One finished row for each file and load path, from a child process."""
    command = [sys.executable, "-W", "error", watched_loads.__file__, str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder.parent, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, rows[-1:], done.stderr[-2000:])
    return [row for row in rows if "seconds" in row]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "files"
    write_hostile_files(folder)
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["file"], row["by"]): row for row in watched(folder, *watched_loads.LOAD_PATHS)}


def test_there_are_forty_hostile_files_and_more() -> None:
    assert len(MAKERS) >= 40


@pytest.mark.parametrize("by", watched_loads.LOAD_PATHS)
@pytest.mark.parametrize("name", MAKERS)
def test_hostile_file_is_refused(outcomes: dict[tuple[str, str], dict[str, Any]], name: str, by: str) -> None:
    row = outcomes[name, by]
    assert row["events"] == []
    assert row["seconds"] < SECONDS
    assert row["memory"] <= 2 * row["size"] + ALLOWANCE
    if watched_loads.LOAD_PATHS[by].reads_values or not name.startswith(HARMLESS_TO_LIST):
        assert row["ours"], row
        assert name in row["message"]
        assert row["message"].isprintable()


@pytest.mark.parametrize("name", [name for name in MAKERS if not name.startswith(NOT_UNSAFE_ONLY_WRONG)])
def test_hostile_file_is_called_unsafe(outcomes: dict[tuple[str, str], dict[str, Any]], name: str) -> None:
    assert outcomes[name, "read_tensors"]["error"] == "UnsafeFileError", outcomes[name, "read_tensors"]["message"]


def test_no_payload_ran(outcomes: dict[tuple[str, str], dict[str, Any]], folder: Path) -> None:
    assert outcomes
    assert not (folder.parent / "canary").exists()


def test_control_the_hook_sees_a_gadget_run(tmp_path: Path) -> None:
    gadgets = tmp_path / "gadgets"
    gadgets.mkdir()
    (gadgets / "gadget.pkl").write_bytes(MAKERS["pickle-bare.pth"](gadgets, f"touch '{tmp_path / 'canary'}'"))
    (row,) = watched(gadgets, "unsafe")
    assert any(event.startswith("os.system") for event in row["events"])
    assert (tmp_path / "canary").exists()


def test_onnx_is_named_as_such(folder: Path) -> None:
    with pytest.raises(WeightsError, match="this is an ONNX file"):
        read_tensors(folder / "misnamed-onnx.safetensors")


def test_error_names_the_function_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(checkpoint(pickle.dumps({"w": Call(os.system, "true")}, 2)))
    with pytest.raises(UnsafeFileError, match=r"'posix\.system'"):
        read_tensors(tmp_path / "w.pt")


def test_environment_cannot_turn_the_checks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    (tmp_path / "w.pt").write_bytes(torch_saved({"w": Call(os.getpid)}))
    with pytest.raises(UnsafeFileError):
        read_tensors(tmp_path / "w.pt")
    assert read_tensors(saved(tmp_path, {"w": torch.ones(1)})).tensors["w"] == 1


# The file system


def test_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    saved(tmp_path, {"w": torch.ones(1)}, "model.pt")
    with pytest.raises(FileError, match=r"no such file; did you mean 'model\.pt'"):
        read_tensors(tmp_path / "modle.pt")
    with pytest.raises(FileError, match="cannot be opened either"):
        read_tensors(tmp_path / "nowhere" / "model.pt")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.safetensors")
    (tmp_path / "loop.pt").symlink_to(tmp_path / "loop.pt")
    (tmp_path / "dangling.pt").symlink_to(tmp_path / "nothing.pt")
    for path in (tmp_path, tmp_path / "fifo.safetensors", tmp_path / "loop.pt", tmp_path / "dangling.pt"):
        with pytest.raises(FileError):
            read_tensors(path)
    for path in ("/dev/zero", "nul\0.pt", "x" * 5000):
        with pytest.raises(FileError):
            read_tensors(path)


def test_link_to_a_good_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(saved(tmp_path, {"w": torch.ones(1)}))
    assert read_tensors(tmp_path / "link").kind == "torch"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = saved(tmp_path, {"w": torch.ones(1)})
    path.chmod(0)
    with pytest.raises(FileError, match="Permission denied"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\0" * 8, safetensors({})[:9]])
def test_stumps_are_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(WeightsError):
        read_tensors(tmp_path / "w")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"\x93NUMPY\x01\x00", "numpy.savez"),
        (b"hello", "not a weights file"),
    ],
)
def test_other_kinds_are_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match=said):
        read_tensors(tmp_path / "w.safetensors")


def test_empty_safetensors_is_no_fault(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "w", {})
    assert read_tensors(tmp_path / "w").tensors == {}
