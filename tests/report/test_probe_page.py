"""The page of a probe: every number, whatever their number, and no name that becomes markup."""

from __future__ import annotations

import pytest

from page.html_checker import Checker
from vitrail.evaluate.probing import FewShot, Probing
from vitrail.report.probe_page import page, rows

HOSTILE = "<img src=x onerror=alert(1)>"


def made(*shots, seeds=2):
    few = tuple(FewShot(n, (0.5,) * seeds, 0.5 + n / 100, 0.02) for n in shots)
    return Probing(few, linear=0.75, linear_strength=0.1, knn=0.625, k=20)


@pytest.mark.parametrize("found", [made(1, 5, 25), made(7), made(1, seeds=1)], ids=["usual", "one", "one seed"])
def test_every_number_is_on_the_page(found):
    written = page(found, model=HOSTILE, data=HOSTILE, split="test", pictures=1234, notes=[HOSTILE])
    checked = Checker(written)
    said = " ".join(checked.words)
    assert all(name in said and value in said for name, value in rows(found))
    assert "1,234 test pictures" in said
    assert "img" not in checked.tags
    assert checked.tags.count("svg") == 1
    assert checked.references == []


def test_a_spread_is_said_where_there_is_one():
    assert rows(made(5))[0] == ("5 of each class", "55.0% ± 2.0")
    assert rows(made(5, seeds=1))[0] == ("5 of each class", "55.0%")
    assert rows(made(5))[1:] == [("20 nearest neighbours", "62.5%"), ("linear, all pictures", "75.0%")]
