"""The same batches whatever the workers, ranks and interruptions; bad pictures are left out by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.picture_kinds import draw, encode
from vitrail.config import Preprocessing
from vitrail.data.augment import Augmentation
from vitrail.data.cache import fill_cache
from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.data.loader import Batch, EvaluationLoader, TrainingLoader
from vitrail.data.prepare import normalise, prepare
from vitrail.errors import ConfigError, ImageError

RULE = Preprocessing((16, 16), (0.4, 0.5, 0.6), (0.2, 0.3, 0.25), crop=0.875)
ALL = Augmentation(crop="resized", flip=True, policy="trivial-augment", jitter=0.3, erase=0.5)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Examples:
    """40 files of several sizes; 5 and 6 are bad."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.jpg" for number in range(40)]
    for number, path in enumerate(paths):
        path.write_bytes(encode(draw(30 + number, 40, seed=number), "JPEG"))
    paths[5].write_bytes(b"not a picture")
    paths[6].unlink()
    splits = {"train": np.arange(30), "val": np.arange(30, 40)}
    return Examples("some", FilePictures(paths), np.arange(40) % 3, ("a", "b", "c"), splits)


def training(examples: Examples, **changes: Any) -> TrainingLoader:
    options = {"batch_size": 7, "channels": 3, "seed": 3, **changes}
    augmentation = options.pop("augmentation", ALL)
    return TrainingLoader(examples, "train", RULE, augmentation, **options)


def digest(batches: Iterable[Batch]) -> str:
    found = hashlib.sha256()
    for batch in batches:
        for part in batch:
            found.update(part.numpy().tobytes())
    return found.hexdigest()


def three_epochs(loader: TrainingLoader) -> str:
    return digest(batch for epoch in range(3) for batch in loader.batches(epoch))


def test_one_hash_for_any_number_of_workers(examples: Examples, record_property: pytest.RecordProperty) -> None:
    before = torch.get_rng_state()
    ways = [{"workers": workers} for workers in (0, 1, 2)] + [{"in_memory": True}]
    hashes = [three_epochs(training(examples, **way)) for way in ways for _ in range(3)]
    record_property("figure", f"{len(hashes)} runs, {len(set(hashes))} hash")
    assert len(set(hashes)) == 1
    assert torch.equal(torch.get_rng_state(), before)  # whose numbers are the model's


@pytest.mark.parametrize("way", [{}, {"workers": 2}, {"in_memory": True}])
def test_a_restart_in_the_middle_of_an_epoch_goes_on_exactly(examples: Examples, way: dict[str, Any]) -> None:
    whole = training(examples, drop_last=False)
    expected = [digest([batch]) for epoch in range(2) for batch in whole.batches(epoch)]
    first = training(examples, drop_last=False, **way)
    seen = []
    for batch in first.batches(0):
        seen.append(digest([batch]))
        if len(seen) == 2:
            break
    assert first.position == 2
    second = training(examples, drop_last=False, **way)
    seen += [digest([batch]) for batch in second.batches(0, start=first.position)]
    seen += [digest([batch]) for batch in first.batches(1)]  # the workers of an epoch left early
    assert seen == expected


def test_what_is_in_a_batch(examples: Examples) -> None:
    loader = training(examples, augmentation=Augmentation())
    batches = list(loader.batches(0))
    assert len(batches) == len(loader) == 4
    for batch in batches:
        assert batch.images.shape == (len(batch.indices), 3, 16, 16)
        assert batch.images.is_contiguous()
        assert (batch.targets == batch.indices % 3).all()
        for image, index in zip(batch.images, batch.indices.tolist(), strict=True):
            pixels = prepare(examples.pictures.read(index, draft=(18, 18)), RULE)
            np.testing.assert_allclose(image, normalise(pixels[None], RULE)[0], atol=1e-6)
    orders = [np.concatenate([batch.indices for batch in loader.batches(epoch)]) for epoch in (0, 1)]
    assert (orders[0][:20] != orders[1][:20]).any()


def test_bad_pictures_are_left_out_and_named(examples: Examples) -> None:
    bad: dict[int, ImageError] = {}
    loader = training(examples, drop_last=False, unreadable=bad.setdefault)
    for epoch in range(2):
        seen = np.concatenate([batch.indices for batch in loader.batches(epoch)])
        assert sorted(seen) == sorted(set(range(30)) - {5, 6})
    assert sorted(bad) == [5, 6]
    assert "5.jpg: this is text" in str(bad[5])
    assert "6.jpg: no such file" in str(bad[6])


@pytest.mark.parametrize("way", [{}, {"workers": 1}, {"in_memory": True}])
def test_a_batch_of_bad_pictures_only_does_not_come_but_is_counted(examples: Examples, way: dict[str, Any]) -> None:
    loader = training(examples, batch_size=1, **way)
    positions = [(loader.position, digest([batch])) for batch in loader.batches(0)]
    assert (len(loader), len(positions)) == (30, 28)
    position, _ = positions[20]
    rest = [digest([batch]) for batch in training(examples, batch_size=1).batches(0, start=position)]
    assert rest == [found for _, found in positions[21:]]


def test_ranks_share_a_batch_that_does_not_depend_on_their_number(examples: Examples) -> None:
    alone = training(examples, batch_size=6)
    shares = [training(examples, batch_size=6, rank=rank, world=3) for rank in range(3)]
    assert {len(loader) for loader in (alone, *shares)} == {5}
    rows = zip(alone.batches(1), *(share.batches(1) for share in shares), strict=True)
    for whole, *parts in rows:
        images = {int(i): image for part in parts for i, image in zip(part.indices, part.images, strict=True)}
        assert set(images) == set(whole.indices.tolist())
        for index, image in zip(whole.indices.tolist(), whole.images, strict=True):
            assert torch.equal(images[index], image)
    with pytest.raises(ConfigError, match="batch_size=2 cannot be shared by 3 processes; use at least 3"):
        training(examples, batch_size=2, world=3)


def test_shares_may_differ_and_come_even_where_they_are_empty(examples: Examples) -> None:
    alone = training(examples, batch_size=7).batches(0)
    shares = [training(examples, batch_size=7, rank=rank, world=2).batches(0) for rank in range(2)]
    for whole, *parts in zip(alone, *shares, strict=True):
        assert torch.cat([part.indices for part in parts]).sort().values.equal(whole.indices.sort().values)
    last = [training(examples, batch_size=29, rank=r, world=3, drop_last=False).batches(0, start=1) for r in range(3)]
    assert [[len(batch.images) for batch in share] for share in last][1:] == [[0], [0]]


def test_balance_draws_by_weight_and_augments_each_time_anew() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 16, 16, 3), dtype=np.uint8)
    rare = np.arange(50) < 5
    examples = Examples("x", ArrayPictures(pixels), rare.astype(np.int64), ("a", "b"), {"train": np.arange(50)})
    weights = np.where(rare, 1 / 5, 1 / 45)
    options = {"batch_size": 10, "augmentation": Augmentation(crop="shift")}
    loader = training(examples, balance=weights, **options)
    batches = [batch for epoch in range(40) for batch in loader.batches(epoch)]
    assert abs(np.mean([batch.targets.float().mean() for batch in batches]) - 0.5) < 0.05
    assert three_epochs(loader) == three_epochs(training(examples, balance=weights, workers=2, **options))
    images = [
        im.numpy().tobytes() for b in loader.batches(0) for i, im in zip(b.indices, b.images, strict=True) if i < 5
    ]
    assert len(images) > len(set(images)) * 0.5 > 5


def test_fewer_pictures_than_a_batch_are_one_batch(examples: Examples) -> None:
    loader = training(examples, batch_size=64)
    assert [len(batch.indices) for batch in loader.batches(0)] == [28]
    assert len(loader) == 1


def test_a_split_without_pictures(examples: Examples) -> None:
    with pytest.raises(ConfigError, match="no pictures in its split 'train'"):
        training(examples.replace(splits={"train": np.arange(0)}))


@pytest.mark.parametrize("workers", [0, 1])
def test_another_size_from_epoch_to_epoch(examples: Examples, workers: int) -> None:
    loader = training(examples, workers=workers)
    sizes = [next(loader.batches(epoch, size=size)).images.shape[-2:] for epoch, size in enumerate([(8, 12), None])]
    assert sizes == [(8, 12), (16, 16)]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_mistake_in_a_worker_is_one_line(examples: Examples, workers: int) -> None:
    many = examples.replace(pictures=ArrayPictures(np.zeros((40, 16, 16, 5), np.uint8)))
    with pytest.raises(ConfigError) as caught:
        list(training(many, workers=workers).batches(0))
    assert str(caught.value) == "the pictures have 5 channels, not 3; use channels=5"


def test_many_channels_and_many_labels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 5), dtype=np.uint8)
    targets = np.random.default_rng(1).integers(0, 2, (12, 4))
    examples = Examples("x", ArrayPictures(pixels), targets, tuple("abcd"), {"train": np.arange(12)})
    rule = Preprocessing((16, 16), (0.5,), (0.5,))
    loader = TrainingLoader(examples, "train", rule, ALL, batch_size=6, channels=5, seed=0)
    for batch in loader.batches(0):
        assert batch.images.shape == (6, 5, 16, 16)
        assert (batch.targets.numpy() == targets[batch.indices]).all()


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_is_in_order_and_without_chance(examples: Examples, workers: int) -> None:
    indices, bad = np.array([33, 5, 31, 0, 39]), dict[int, ImageError]()
    options: dict[str, Any] = {"batch_size": 2, "channels": 3, "workers": workers, "unreadable": bad.setdefault}
    loader = EvaluationLoader(examples, indices, RULE, **options)
    assert len(loader) == 3
    runs = [list(loader) for _ in range(2)]
    assert [batch.indices.tolist() for batch in runs[0]] == [[33], [31, 0], [39]]
    assert digest(runs[0]) == digest(runs[1])
    assert list(bad) == [5]


def test_cached_pictures_give_the_same_batches(examples: Examples) -> None:
    found = fill_cache(examples, np.arange(40), RULE, 3, limit_bytes=10**7, threads=2)
    assert found is not None
    cached, bad = found
    assert sorted(bad) == [5, 6]
    augmentation = Augmentation(crop="shift", flip=True, erase=0.5)
    loaders = [
        training(kind, augmentation=augmentation, workers=workers)
        for kind in (examples, examples.replace(pictures=cached))
        for workers in (0, 2)
    ]
    assert len({three_epochs(loader) for loader in loaders}) == 1


def test_no_file_is_opened_for_batches_that_are_skipped(examples: Examples, tmp_path: Path) -> None:
    gone = examples.replace(pictures=FilePictures([tmp_path / "gone.jpg"] * 40))
    bad: dict[int, ImageError] = {}
    loader = training(gone, unreadable=bad.setdefault)
    assert list(loader.batches(0, start=len(loader))) == []
    assert bad == {}
