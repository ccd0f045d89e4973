"""Numbers as small pictures."""

from __future__ import annotations

import numpy as np

from vitrail.page.sheets import LEAD, crisp, glass, overlay, sheet


def test_colours_get_lighter_from_0_to_1() -> None:
    colours = glass(np.linspace(0, 1, 50)).astype(float)
    light = colours @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(light) > 0).all()
    assert glass(np.zeros((2, 3))).shape == (2, 3, 3)
    assert (glass(np.array([-5.0, 9.0])) == glass(np.array([0.0, 1.0]))).all()


def test_tiles_are_set_in_lead() -> None:
    tiles = np.arange(5 * 2 * 3 * 3, dtype=np.uint8).reshape(5, 2, 3, 3)
    made = sheet(tiles, columns=3)
    assert made.shape == (7, 13, 3)
    assert (made[1:3, 9:12] == tiles[2]).all()
    assert (made[4:6, 1:4] == tiles[3]).all()
    assert (made[4:6, 9:12] == LEAD).all()
    assert (made[0] == LEAD).all()


def test_heat_glows_where_it_is_and_leaves_the_rest_grey() -> None:
    picture = np.full((20, 30, 3), (200, 100, 0), np.uint8)
    heat = np.zeros((2, 3), np.float32)
    heat[0, 0] = 7
    made = overlay(picture, heat).astype(int)
    assert made.shape == picture.shape
    assert np.ptp(made[-1, -1]) == 0
    assert np.ptp(made[2, 2]) > 20


def test_any_heat_and_any_picture_will_do() -> None:
    grey = np.zeros((8, 8, 1), np.uint8)
    for heat in (np.zeros((2, 2)), np.full((2, 2), -1.0), np.array([[np.nan, 1.0]]), np.ones((8, 8))):
        assert overlay(grey, heat.astype(np.float32)).shape == (8, 8, 3)
    assert overlay(np.zeros((8, 8, 5), np.uint8), np.ones((2, 2))).shape == (8, 8, 3)


def test_an_image_with_crisp_pixels() -> None:
    assert crisp(np.zeros((2, 2, 3), np.uint8), "a &amp; b").startswith('<img class="pixelated" src="data:image/png;')
