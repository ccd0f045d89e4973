"""Terminal and page show the same walk; the page needs nothing from the net and trusts no name."""

from __future__ import annotations

import html
import io
import re

import numpy as np
import pytest
import torch
from rich.console import Console

from page.html_checker import Checker
from vitrail.explain.walk import walk
from vitrail.explain.walk_html import page
from vitrail.explain.walk_parts import Walk, percent
from vitrail.explain.walk_terminal import show
from vitrail.explain.worked_example import PREPROCESSING, worked_example
from vitrail.model import create_model
from vitrail.model.vit import ViT


def printed(shown: Walk, width: int = 100, *, colours: bool = False) -> str:
    file = io.StringIO()
    show(shown, Console(file=file, width=width, force_terminal=colours, color_system="truecolor" if colours else None))
    return file.getvalue()


@pytest.fixture(scope="module")
def example() -> Walk:
    model, image, classes = worked_example("cat")
    return walk(model, image, classes, PREPROCESSING, "cat")


@pytest.fixture(scope="module")
def small() -> Walk:
    """A model of the size S/16 on a picture of noise, which compresses worst."""
    torch.manual_seed(0)
    model = create_model("S/16", num_classes=1000)
    assert isinstance(model, ViT)
    return walk(model, np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8), None)


def test_both_show_the_same_probabilities(example: Walk) -> None:
    for document in (printed(example), "".join(Checker(page(example)).words)):
        for label, share in example.ranking:
            assert re.search(rf"{label}\s*{re.escape(percent(share))}", document)


def test_both_show_every_step_in_order(example: Walk) -> None:
    for document in (printed(example), html.unescape(page(example).split("<main>")[1])):
        places = [document.index(step.title) for step in example.steps]
        assert places == sorted(places)


def test_both_show_the_same_numbers(example: Walk) -> None:
    cells = re.findall(r'<td class="(?:plus|minus)"[^>]*>([^<]*)</td>', page(example))
    shown = {cell.replace("−", "-") for cell in cells}
    assert len(cells) > 1000
    assert shown <= set(re.findall(r"-?\d+\.\d+", printed(example)))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_without_a_terminal_it_is_plain_text_that_fits(example: Walk, width: int) -> None:
    text = printed(example, width)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in [line.strip("│ ")[-1:] for line in text.splitlines() if "scores" in line]


def test_no_number_is_cut_off_at_80_columns(example: Walk) -> None:
    assert set(re.findall(r"-?\d+\.\d+", printed(example, 120))) <= set(re.findall(r"-?\d+\.\d+", printed(example, 80)))


def test_a_terminal_gets_colours_and_pictures(example: Walk) -> None:
    text = printed(example, colours=True)
    assert "\x1b[38;2;" in text
    assert "▀" in text


@pytest.mark.parametrize("which", ["example", "small"])
def test_the_page_is_well_formed_and_needs_nothing(which: str, request: pytest.FixtureRequest) -> None:
    document = page(request.getfixturevalue(which))
    assert all(reference.startswith(("data:image/png;base64,", "#")) for reference in Checker(document).references)
    without_data = re.sub(r'"data:image/png;base64,[A-Za-z0-9+/=]*"', '""', document)
    for outside in ("http:", "https:", "//", "@import", "url(", "src="):
        assert outside not in without_data


def test_the_page_of_a_large_model_stays_small(small: Walk) -> None:
    assert len(page(small).encode()) < 1_500_000
    assert "excerpt of 197 × 384" in page(small)
    assert "excerpt of 197 × 384" in printed(small)
    assert max(map(len, printed(small, 80).splitlines())) <= 80


def test_names_are_shown_as_text() -> None:
    model, image, _ = worked_example("cat")
    evil = "<script>alert(1)</script>"
    shown = walk(model, image, (evil, '"><img src=x onerror=alert(2)>'), PREPROCESSING, f"{evil}\x1b[2J.png")
    document = Checker(page(shown))
    assert document.tags.count("script") == 1
    assert "img" not in document.tags
    assert any(evil in words for words in document.words)
    assert evil in printed(shown)
    assert "\x1b" not in printed(shown)
    assert "\x1b" not in page(shown)


def test_names_are_not_markup_in_the_terminal() -> None:
    model, image, _ = worked_example("cat")
    assert "[red]cat[/red]" in printed(walk(model, image, ("[red]cat[/red]", "dog"), PREPROCESSING))
