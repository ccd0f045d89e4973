"""A picture's answer is the model's own, in whatever form the picture comes."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from oracles import randomise
from vitrail import Artefact, Predictor, Preprocessing, create_model, load
from vitrail.data.images import open_image, to_array
from vitrail.data.prepare import prepare
from vitrail.errors import CheckFailed, ConfigError, ImageError


def by_hand(artefact, path):
    """Probabilities with torch alone."""
    steps = artefact.preprocessing
    pixels = torch.from_numpy(prepare(to_array(open_image(path), 3), steps).copy()).double() / 255
    image = (pixels - torch.tensor(steps.mean)) / torch.tensor(steps.std)
    with torch.no_grad():
        logits = artefact.model(image.permute(2, 0, 1)[None].float())
    return (logits.double() / (artefact.temperature or 1)).softmax(dim=1)[0].numpy()


def test_the_answer_is_the_models(artefact, predictor, pictures):
    answers = [predictor.predict(path) for path in pictures]
    for path, found in zip(pictures, answers, strict=True):
        p = by_hand(artefact, path)
        assert found.label == artefact.classes[p.argmax()]
        assert found.probability == pytest.approx(p.max(), abs=1e-6)
        assert [label for label, _ in found.top] == [artefact.classes[i] for i in np.argsort(-p)]
        assert sum(share for _, share in found.top) == pytest.approx(1)
        assert found.unknown == (found.probability < 0.45)
        assert found.labels == (() if found.unknown else (found.label,))
    assert len({found.unknown for found in answers}) == 2
    assert len({found.label for found in answers}) > 1


def test_every_form_of_a_picture_gives_the_same_answer(predictor, pictures):
    path = pictures[0]
    expected = predictor.predict(path)
    with Image.open(path) as image:
        forms = [str(path), path.read_bytes(), image.copy(), np.array(image)]
    assert [predictor.predict(form) for form in forms] == [expected] * 4


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_pillow_images_of_every_mode_are_seen_as_their_files_are(predictor, mode, pictures, tmp_path):
    image = Image.open(pictures[1]).convert("L" if mode == "I;16" else "RGBA" if mode == "RGBA" else "RGB")
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    if mode == "I;16":
        image = Image.fromarray(np.array(image).astype(np.uint16) * 257)
    image = image if image.mode == mode else image.convert(mode)
    image.save(tmp_path / "x.tiff")
    assert predictor.predict(image) == predictor.predict(tmp_path / "x.tiff")


def test_a_turned_photograph_is_turned_back(predictor, pictures):
    image = Image.open(pictures[2])
    exif = Image.Exif()
    exif[274] = 6
    data = io.BytesIO()
    image.save(data, "JPEG", quality=95, exif=exif)
    opened = Image.open(io.BytesIO(data.getvalue()))
    assert predictor.predict(opened) == predictor.predict(data.getvalue())


def test_what_is_no_picture(predictor, tmp_path):
    (tmp_path / "x.jpg").write_text("hello")
    with pytest.raises(ImageError, match="this is text"):
        predictor.predict(tmp_path / "x.jpg")
    with pytest.raises(ImageError, match="cannot be decoded"):
        predictor.predict(Image.new("F", (3, 0)))
    for wrong in (np.zeros((8, 8, 3), np.float32), np.zeros((2, 8, 8, 3), np.uint8), np.zeros((0, 8, 3), np.uint8)):
        with pytest.raises(ConfigError, match="are no picture; give uint8"):
            predictor.predict(wrong)
    with pytest.raises(ConfigError, match="a picture cannot be a int"):
        predictor.predict(3)
    with pytest.raises(ConfigError, match="5 channels, not 3"):
        predictor.predict(np.zeros((8, 8, 5), np.uint8))


def test_many_in_order_bad_ones_among_them(predictor, pictures, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff nothing")
    sources = [pictures[0], tmp_path / "bad.jpg", *pictures[1:], tmp_path / "gone.jpg"]
    expected = {path: predictor.predict(path) for path in pictures}
    for batch_size, threads in ((1, 1), (4, 2), (100, 3)):
        found = list(predictor.predict_many(iter(sources), batch_size=batch_size, threads=threads))
        assert [source for source, _ in found] == sources
        for source, answer in found:
            if source in expected:
                assert answer.label == expected[source].label
                assert answer.probability == pytest.approx(expected[source].probability, abs=1e-5)
            else:
                assert isinstance(answer, ImageError)
                assert str(source) in str(answer)


def test_answers_come_while_sources_are_still_coming(predictor, pictures):
    """Neither all sources nor all answers are ever held."""
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield pictures[taken % 12]

    answers = predictor.predict_many(endless(), batch_size=4, threads=2)
    for _ in range(100):
        next(answers)
    assert taken <= 100 + 4 * 4
    answers.close()
    deadline = time.monotonic() + 10
    while any(thread.name.startswith("vitrail-read") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "threads stay behind"


def test_only_bad_pictures_are_not_gathered_for_ever(predictor, tmp_path):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield tmp_path / "gone.jpg"

    answers = predictor.predict_many(endless(), batch_size=4)
    assert isinstance(next(answers)[1], ImageError)
    assert taken < 50
    answers.close()


def test_several_labels(artefact, pictures):
    several = Artefact(artefact.model, artefact.classes, artefact.preprocessing, multi_label=True)
    found = Predictor.of(several).predict(pictures[0])
    logits = Predictor.of(several).engine(Predictor.of(several).read(pictures[0])[None])[0]
    p = 1 / (1 + np.exp(-logits.astype(float)))
    assert dict(found.top) == pytest.approx(dict(zip(artefact.classes, p, strict=True)))
    assert set(found.labels) == {name for name, share in zip(artefact.classes, p, strict=True) if share >= 0.5}
    several.thresholds = (0.0, 1.0, 0.0)
    found = Predictor.of(several).predict(pictures[0])
    assert set(found.labels) == {"ant", "cat"}
    assert not found.unknown
    several.thresholds = (1.0, 1.0, 1.0)
    assert Predictor.of(several).predict(pictures[0]).unknown


def test_the_mirror_image_counts_as_much(artefact, pictures):
    engine, mirrored = Predictor.of(artefact).engine, Predictor.of(artefact, mirror=True).engine
    pixels = np.stack([Predictor.of(artefact).read(path) for path in pictures[:3]])
    both = (engine(pixels) + engine(np.ascontiguousarray(pixels[:, :, ::-1]))) / 2
    np.testing.assert_allclose(mirrored(pixels), both, atol=1e-6)


def test_a_model_in_training_is_asked_in_evaluation_and_goes_on_training(pictures):
    model = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3, dropout=0.5)).train()
    predictor = Predictor.of(Artefact(model))
    assert predictor.predict(pictures[0]) == predictor.predict(pictures[0])
    assert model.training


def test_what_a_file_does_not_say_is_assumed_and_said(pictures):
    model = randomise(create_model("Ti/16", image_size=(32, 48), depth=1, num_classes=3))
    predictor = Predictor.of(Artefact(model))
    assert predictor.classes == ("0", "1", "2")
    assert predictor.preprocessing == Preprocessing(size=(32, 48), mean=(0.5,) * 3, std=(0.5,) * 3)
    assert len(predictor.notes) == 2
    assert not predictor.predict(pictures[0]).unknown


def test_grey_models_see_grey(pictures):
    model = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=2, channels=1))
    predictor = Predictor.of(Artefact(model))
    assert predictor.read(pictures[0]).shape == (32, 32, 1)
    predictor.predict(pictures[0])


def test_no_classes_no_prediction(pictures):
    predictor = Predictor.of(Artefact(create_model("Ti/16", image_size=32, depth=1, num_classes=0)))
    with pytest.raises(ConfigError, match="no classes to choose from"):
        predictor.predict(pictures[0])
    assert predictor.engine(predictor.read(pictures[0])[None]).shape == (1, 192)


def test_load_save_check(artefact, pictures, tmp_path):
    artefact.save(tmp_path / "a.safetensors")
    found = load(tmp_path / "a.safetensors", check=True)
    assert isinstance(found, Predictor)
    assert found.predict(pictures[0]) == Predictor.of(artefact).predict(pictures[0])
    assert found.source == str(tmp_path / "a.safetensors")
    assert found.check() < 1e-5
    assert found.notes == ()
    found.save(tmp_path / "b.safetensors")
    assert load(tmp_path / "b.safetensors").artefact.unknown_below == 0.45
    with torch.no_grad():
        found.model.head.bias.add_(1)
    with pytest.raises(CheckFailed):
        found.check()


def test_an_engine_without_a_model_file(predictor, pictures):
    """Another engine in the place of torch: all works but what asks for the weights."""

    class Flat:
        name = "flat"

        def __call__(self, batch):
            return np.zeros((len(batch), 3), np.float32)

    flat = Predictor(Flat(), predictor.decision, predictor.preprocessing, 3)
    assert flat.predict(pictures[0]).probability == pytest.approx(1 / 3)
    np.testing.assert_allclose(flat.probabilities(flat.read(pictures[0])[None]), np.full((1, 3), 1 / 3))
    with pytest.raises(ConfigError, match="the flat engine shows no weights"):
        _ = flat.model


def test_no_torch_is_needed_but_by_the_torch_engine(pictures):
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np
from vitrail.config import Preprocessing
from vitrail.predict.answers import Decision
from vitrail.predict.predictor import Predictor
import vitrail.predict.examples, vitrail.predict.find

class Means:
    name = "means"
    def __call__(self, batch):
        return batch.mean(axis=(1, 2)).astype(np.float32)

predictor = Predictor(Means(), Decision(("r", "g", "b")), Preprocessing(32, (0.5,) * 3, (0.5,) * 3), 3)
[(_, one)] = predictor.predict_many([{str(pictures[0])!r}])
assert one == predictor.predict({str(pictures[0])!r})
assert predictor.predict(np.full((8, 8, 3), [0, 9, 0], np.uint8)).label == "g"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
