"""T8: the same settings give the same model, whatever the number of data workers."""

from __future__ import annotations

import hashlib

from reliability import tiny_runs

STEPS = 6


def fingerprint(run):
    return hashlib.sha256(repr(tiny_runs.content(run / "model.safetensors")).encode()).hexdigest()


def test_one_model_whatever_the_workers(forge, pictures, tmp_path, record_property):
    hashes = {}
    for workers in (0, 1, 2):
        for again in range(3):
            run = tmp_path / f"{workers}-{again}" / "run"
            done = forge.run(*tiny_runs.words(pictures, run, "--workers", workers, steps=STEPS))
            assert done.wait() == 0, done.said()
            hashes[workers, again] = fingerprint(run)
    assert len(set(hashes.values())) == 1, hashes
    record_property("figure", f"{len(hashes)} runs, {len(set(hashes.values()))} hash")


def test_another_seed_is_another_model(forge, pictures, tmp_path):
    """Or the hash would say nothing."""
    for seed in (0, 1):
        assert forge.run(*tiny_runs.words(pictures, tmp_path / str(seed), "--seed", seed, steps=2)).wait() == 0
    assert fingerprint(tmp_path / "0") != fingerprint(tmp_path / "1")
