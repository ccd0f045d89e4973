"""T3: damaged checkpoints are detected before anything is parsed, named, and passed over."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reliability import tiny_runs
from vitrail.train import checkpoint

FILES = ("tensors.safetensors", "state.json", "manifest.json")

Mutation = Callable[[Path, Path, random.Random], None]  # the newest checkpoint, the one before


def of_file(name: str, change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    def mutate(newest: Path, _: Path, chance: random.Random) -> None:
        (newest / name).write_bytes(change((newest / name).read_bytes(), chance))

    return mutate


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def flip_a_bit(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


def zero_the_tail(content: bytes, chance: random.Random) -> bytes:
    """As a file looks whose size was written and whose end was not. The last byte was no zero, or nothing changed."""
    at = chance.randrange(len(content.rstrip(b"\0")))
    return content[:at] + bytes(len(content) - at)


def append(content: bytes, chance: random.Random) -> bytes:
    return content + chance.randbytes(chance.randint(1, 100))


def swap_halves(content: bytes, _: random.Random) -> bytes:
    return content[len(content) // 2 :] + content[: len(content) // 2]


def missing(name: str) -> Mutation:
    return lambda newest, _, __: (newest / name).unlink()


def from_another_step(name: str) -> Mutation:
    return lambda newest, before, _: (newest / name).write_bytes((before / name).read_bytes())


def is_a_folder(name: str) -> Mutation:
    def mutate(newest: Path, _: Path, __: random.Random) -> None:
        (newest / name).unlink()
        (newest / name).mkdir()

    return mutate


def change_manifest(change: Callable[[dict], object]) -> Mutation:
    def mutate(newest: Path, _: Path, __: random.Random) -> None:
        manifest = json.loads((newest / "manifest.json").read_text())
        changed = change(manifest)
        (newest / "manifest.json").write_text(json.dumps(manifest if changed is None else changed))

    return mutate


def all_of_another_step(newest: Path, before: Path, _: random.Random) -> None:
    """A folder that was renamed by hand."""
    shutil.rmtree(newest)
    shutil.copytree(before, newest)


def empty_folder(newest: Path, _: Path, __: random.Random) -> None:
    for name in FILES:
        (newest / name).unlink()


def mutations() -> list[tuple[str, Mutation]]:
    """120 of them."""
    changes = {"cut": cut, "bit": flip_a_bit, "zeros": zero_the_tail, "longer": append}
    made = [
        (f"{what} {name} {n}", of_file(name, change))
        for what, change in changes.items()
        for name in FILES
        for n in range({"cut": 10, "bit": 12, "zeros": 8, "longer": 2}[what])
    ]
    for name in FILES:
        made += [(f"missing {name}", missing(name)), (f"folder {name}", is_a_folder(name))]
        made += [(f"halves {name}", of_file(name, swap_halves)), (f"empty {name}", of_file(name, lambda *_: b""))]
        made += [(f"swapped {name}", from_another_step(name))]
    manifests = {
        "no step": lambda m: m.pop("step") and None,
        "other step": lambda m: m.update(step=m["step"] + 1),
        "no file": lambda m: m.pop("state.json") and None,
        "size": lambda m: m["state.json"].update(bytes=1),
        "hash": lambda m: m["tensors.safetensors"].update(sha256="0" * 64),
        "list": lambda m: [m],
        "null": lambda _: "null",
    }
    made += [(f"manifest {name}", change_manifest(change)) for name, change in manifests.items()]
    return [*made, ("renamed", all_of_another_step), ("nothing inside", empty_folder)]


def saved(folder: Path) -> None:
    for step in (3, 6):
        tensors = {"weight": torch.arange(60.0) + step, "optimizer": torch.full((50,), float(step))}
        checkpoint.save(folder, step, tensors, {"step": step, "best": 0.5})


def test_damaged_checkpoints_are_named_and_passed_over(tmp_path, monkeypatch, record_property):
    kinds = mutations()
    assert len(kinds) == 120
    saved(tmp_path / "whole")
    parsed: list[Path] = []
    load_file = checkpoint.load_file
    monkeypatch.setattr(checkpoint, "load_file", lambda path: (parsed.append(Path(path)), load_file(path))[1])
    for number, (name, mutate) in enumerate(kinds):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        mutate(folder / "step-00000006", folder / "step-00000003", random.Random(number))
        found, faults = checkpoint.load_newest(folder)
        assert len(faults) == 1, name
        assert str(folder / "step-00000006") in str(faults[0]), name
        assert "damaged" in str(faults[0]), name
        assert found is not None, name
        assert found.step == 3, name
        assert torch.equal(found.tensors["weight"], torch.arange(60.0) + 3), name
        assert [path.parent.name for path in parsed] == ["step-00000003"], name
        parsed.clear()
        shutil.rmtree(folder)
    record_property("figure", f"{len(kinds)} detected before parsing, named, passed over")


@pytest.mark.parametrize("kind", ["cut tensors.safetensors 0", "bit state.json 0", "missing manifest.json"])
def test_the_command_names_the_damaged_one_and_goes_on(forge, undisturbed, tmp_path, kind):
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    newest, before = run / "checkpoints" / "step-00000024", run / "checkpoints" / "step-00000021"
    dict(mutations())[kind](newest, before, random.Random(0))
    done = forge.run(*tiny_runs.again(run))
    assert done.wait() == 0, done.said()
    assert f"{newest}: this checkpoint is damaged" in done.said()
    state, reference = tiny_runs.state_of(run), tiny_runs.state_of(undisturbed)
    assert [name for name in reference if state[name] != reference[name]] == []


def test_with_all_damaged_the_run_begins_again(forge, undisturbed, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    for folder in (run / "checkpoints").iterdir():
        (folder / "tensors.safetensors").write_bytes(b"")
    done = forge.run(*tiny_runs.again(run))
    assert done.wait() == 0, done.said()
    assert done.said().count("this checkpoint is damaged") == 2
    assert tiny_runs.state_of(run)["model"] == tiny_runs.state_of(undisturbed)["model"]
    assert tiny_runs.state_of(run)["validations"] == tiny_runs.state_of(undisturbed)["validations"]
