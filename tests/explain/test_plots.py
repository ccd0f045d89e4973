"""The contact sheet: whatever pictures, labels and verdicts there are, everything is on it and inside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from vitrail.explain.methods import Explanation
from vitrail.explain.plots import WARNING, contact_sheet, write_contact_sheet
from vitrail.explain.study import MOST_SHOWN, Finding, Study
from vitrail.explain.trust import Trust
from vitrail.predict.answers import Prediction

GOOD, DOUBTED, SAME = Trust(0.8, 0.3, 0.02, 0.1), Trust(0.4, 0.3, 0.4, 0.1), Trust(0.8, 0.3, 0.02, 0.9)


def study(label="bee", name="photo.jpg", size=(48, 48), trust=GOOD, taken=None, channels=3) -> Study:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), np.uint8)
    heat = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = Finding(Explanation(heat, "rollout", 0, np.zeros(2, np.float32)), trust)
    answer = Prediction(taken or label, 0.9, (), unknown=False, labels=())
    return Study(name, pixels, answer, label, 0.875, (found,))


def sheet(studies, source="runs/pets") -> Figure:
    return contact_sheet(studies, source)


def words(figure: Figure) -> list[str]:
    return [line.get_text() for line in figure.texts]


def all_inside(figure: Figure) -> bool:
    """All words are on the sheet, and no two lines of words on each other."""
    boxes = [line.get_window_extent() for line in figure.texts]
    inside = all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    apart = not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    return inside and apart


def test_it_tells_answers_verdicts_model_method_and_scale():
    figure = sheet([study(), study("ant", trust=DOUBTED), study("cat", trust=None), study(trust=SAME)])
    said = words(figure)
    assert "runs/pets, explained by rollout" in said
    assert {"bee  87.5 %", "ant  87.5 %", "cat  87.5 %"} <= set(said)
    assert said.count("better than random (score +0.50)") == 2
    assert "no better than random (score +0.10)" in said
    assert "not tried" in said
    assert "and hardly depends on the weights" in said
    colours = {line.get_text(): line.get_color() for line in figure.texts}
    assert colours["no better than random (score +0.10)"] == WARNING
    assert said.count("least") == 1
    assert sum("each map on its own scale" in line for line in said) == 1
    assert all_inside(figure)


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "$x$ \\frac{1}{2} 10 $", "a\nb\x1b[2J", "W" * 300, "é"])
def test_any_label_and_name_is_text_that_fits(label):
    figure = sheet([study(label, name=f"{label}.png", trust=SAME) for _ in range(4)], source=label)
    assert all_inside(figure)
    label_lines = [line for line in words(figure) if line.endswith("  87.5 %")]
    assert len(label_lines) == 4
    shown = label_lines[0].removesuffix("  87.5 %").removesuffix("…")
    assert shown
    assert label.encode("unicode_escape").decode().replace("\\\\", "\\").startswith(shown) or label.startswith(shown)


@pytest.mark.parametrize("size", [(32, 96), (96, 32), (8, 400), (400, 8), (20, 20)])
def test_no_shape_breaks_it(size):
    """Every picture stays in its own place, also beside others of other shapes."""
    figure = sheet([study(size=size), study(size=(40, 60)), study(size=size), study(size=(60, 40))])
    assert all_inside(figure)
    assert 3 < figure.get_figheight() < 12
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_two_are_enough_and_grey_is_shown():
    figure = sheet([study(channels=1), study(channels=5)], source="runs/" + "long" * 20)
    assert all_inside(figure)
    assert "2 pictures, each beside where its answer comes from" in words(figure)


def test_what_is_left_out_is_said():
    figure = sheet([study() for _ in range(MOST_SHOWN + 3)])
    assert f"the first {MOST_SHOWN} of {MOST_SHOWN + 3} pictures, each beside where its answer comes from" in words(
        figure
    )
    assert len(figure.axes) == 2 * MOST_SHOWN + 1


def test_another_class_than_the_answer_is_told_apart():
    figure = sheet([study("ant", taken="bee"), study("ant")])
    assert "Why ant  87.5 %" in words(figure)
    assert "taken for bee  ·  photo.jpg" in words(figure)


def test_the_file_is_a_picture_as_wide_as_a_page(tmp_path):
    write_contact_sheet(tmp_path / "sheet.png", [study() for _ in range(4)], "runs/pets")
    with Image.open(tmp_path / "sheet.png") as picture:
        picture.load()
        assert 900 <= picture.width <= 1500


def test_of_several_methods_the_most_faithful_is_shown():
    one = study(trust=DOUBTED)
    better = replace(one.findings[0].explanation, method="occlusion")
    said = words(sheet([replace(one, findings=(*one.findings, Finding(better, GOOD)))] * 2))
    assert "runs/pets, explained by occlusion" in said
    assert said.count("better than random (score +0.50)") == 2
