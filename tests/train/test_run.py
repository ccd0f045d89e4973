"""The folder of a run: held by one, never overwritten unasked, its log exact."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from vitrail.errors import ConfigError, FileError
from vitrail.train.run import Run, new_folder, read_reasons, read_settings


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "runs" / "mine")
    yield made
    made.close()


def test_settings_come_back_without_their_reasons(run):
    run.write_settings({"a": (1, 2), "b": {"c": None, "d": "ü"}}, {"a": "because"})
    assert read_settings(run.folder / "config.yaml") == {"a": [1, 2], "b": {"c": None, "d": "ü"}}
    assert read_reasons(run.folder / "config.yaml") == {"a": "because"}


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "a: !!python/object:os.system x", "\x00"])
def test_a_file_that_holds_no_settings(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(FileError, match=r"give the config\.yaml of a run"):
        read_settings(tmp_path / "config.yaml")


def test_an_existing_run_is_never_overwritten_unless_asked(run):
    run.write_settings({"a": 1}, {})
    run.close()
    with pytest.raises(ConfigError, match="--resume"):
        Run.create(run.folder)
    assert read_settings(run.folder / "config.yaml") == {"a": 1}
    again = Run.create(run.folder, overwrite=True)
    assert {path.name for path in run.folder.iterdir()} == {".lock"}
    again.close()


def test_overwriting_spares_what_no_run_wrote(run):
    run.close()
    (run.folder / "thesis.txt").write_text("years of work")
    (run.folder / "config.yaml").write_text("a: 1")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        Run.create(run.folder, overwrite=True)
    assert (run.folder / "thesis.txt").exists()
    assert (run.folder / "config.yaml").exists()


def test_a_run_that_was_never_begun_does_not_stand_in_the_way(run):
    """Killed before its settings were written, it can neither be resumed nor is there anything in it to lose."""
    run.close()
    (run.folder / "split.csv").write_text("path,label,split,group\n")
    (run.folder / ".vitrail-0123.tmp").write_text("half")
    Run.create(run.folder).close()
    assert {path.name for path in run.folder.iterdir()} == {".lock"}


def test_what_a_killed_process_was_writing_is_removed(run):
    run.write_settings({}, {})
    run.close()
    (run.folder / ".vitrail-0123.tmp").write_text("half")
    Run.open(run.folder).close()
    assert {path.name for path in run.folder.iterdir()} == {".lock", "config.yaml"}


def test_one_process_at_a_time(run):
    run.write_settings({}, {})
    for attempt in (Run.open, lambda folder: Run.create(folder, overwrite=True)):
        with pytest.raises(ConfigError, match="another process is working on this run"):
            attempt(run.folder)
    assert (run.folder / "config.yaml").exists()
    run.close()
    Run.open(run.folder).close()


def test_a_killed_process_does_not_hold_the_run(tmp_path):
    program = "import sys, time; from pathlib import Path; from vitrail.train.run import Run\n"
    program += "Run.create(Path(sys.argv[1])).write_settings({}, {}); print('held', flush=True); time.sleep(60)"
    words = [sys.executable, "-c", program, str(tmp_path / "run")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process"):
            Run.open(tmp_path / "run")
        process.kill()
    Run.open(tmp_path / "run").close()


def test_a_forked_worker_does_not_hold_the_run(run):
    """It lives on for seconds when its parent is killed, and would keep the lock with it."""
    run.write_settings({}, {})
    alive, says = os.pipe()
    worker = os.fork()
    if not worker:
        os.write(says, b"!")
        time.sleep(60)
        os._exit(0)
    try:
        assert os.read(alive, 1) == b"!"
        run.close()
        Run.open(run.folder).close()
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_folders_that_are_no_runs(tmp_path):
    with pytest.raises(FileError, match="not a run"):
        Run.open(tmp_path)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        for overwrite in (False, True):
            with pytest.raises(FileError, match="cannot be made"):
                Run.create(place, overwrite=overwrite)


def test_the_log_can_be_taken_back_to_a_checkpoint(run):
    run.log({"kind": "train", "step": 1})
    position = run.log_position()
    run.log({"kind": "val", "step": 2})
    run.rewind_log(position)
    run.log({"kind": "val", "step": 3})
    assert [row["step"] for row in run.metrics()] == [1, 3]
    run.rewind_log(10_000)
    assert len(run.metrics()) == 2


def test_a_log_that_cannot_be_written_is_one_line(run):
    run.log({"kind": "train", "step": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (run.log_position() + 5, before[1]))
    try:
        for _ in range(2):  # the first writes a part of the line
            with pytest.raises(FileError, match=r"metrics\.jsonl: cannot be written.*check the free space"):
                run.log({"kind": "train", "step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_results_are_the_validations(run):
    run.log({"kind": "train", "step": 1, "loss": 2.0})
    run.log({"kind": "val", "step": 2, "accuracy": 0.5})
    run.log({"kind": "val", "step": 4, "accuracy": 0.75, "loss": 0.1})
    run.write_results()
    text = (run.folder / "results.csv").read_text()
    assert text.split() == ["step,accuracy,loss", "2,0.5,", "4,0.75,0.1"]


def test_names_of_new_folders(tmp_path):
    assert new_folder("my photos/", tmp_path).name == "my-photos"
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets-2").mkdir()
    assert new_folder("pets", tmp_path).name == "pets-3"
    for odd in ("", "...", "/", "..", "ü n"):
        assert new_folder(odd, tmp_path).parent == tmp_path
        assert new_folder(odd, tmp_path).name.strip(".")
