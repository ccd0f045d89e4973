"""Explanations as one self-contained page: maps by every method, and what each patch, head and layer attends to."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitrail.explain.attention_data import attention_data
from vitrail.explain.methods import METHODS, as_input, evaluating, scaled
from vitrail.explain.study import MOST_SHOWN, Finding, Study
from vitrail.model import ViT
from vitrail.page.document import document, resource, text
from vitrail.page.pictures import img
from vitrail.predict.predictor import Predictor

ATTENTION_BYTES = 2_600_000  # of all pictures together; a page stays under 5 MB
SIDE = 448  # pixels across


def page(studies: Sequence[Study], predictor: Predictor) -> str:
    """The whole document."""
    shown = studies[:MOST_SHOWN]
    data = [_data(study, predictor, ATTENTION_BYTES // len(shown)) for study in shown]
    sections = "".join(map(_section, shown, range(len(shown)), data))
    links = "".join(_link(study, i) for i, study in enumerate(shown))
    more = len(studies) - len(shown)
    left = f'<p class="note">{more} more pictures have their PNG files only.</p>' if more else ""
    body = f"""<a class="skip" href="#picture-0">Skip to the first picture</a>
<header><div>
  <p class="kicker">Explained by vitrail</p>
  <h1>{text(_headline(studies))}</h1>
  <p class="model">{text(_verdict(studies))}</p>{left}
</div></header>
<div class="page">
  <nav aria-label="Pictures"><ol><li><ol>{links}</ol></li></ol></nav>
  <main>{sections}</main>
</div>
<footer><p>Made by vitrail explain with {text(predictor.source)}.</p></footer>
<script type="application/json" id="data">{json.dumps(data).replace("<", chr(92) + "u003c")}</script>"""
    style, script = (resource("vitrail.explain", name) for name in ("explain.css", "explain.js"))
    return document(title=_headline(studies), style=style, body=body, script=script)


def _headline(studies: Sequence[Study]) -> str:
    if len(studies) == 1:
        return f"Why this is taken for {studies[0].label}" if _is_answer(studies[0]) else f"Why {studies[0].label}?"
    return f"What {len(studies):,} pictures are taken for, and why"


def _is_answer(study: Study) -> bool:
    return study.label == study.prediction.label


def _verdict(studies: Sequence[Study]) -> str:
    tried = [trust for study in studies for _, trust in study.findings if trust is not None]
    if not tried:
        return "The maps were not tried, so nothing is known about how far they can be trusted."
    good = sum(trust.better_than_random for trust in tried)
    said = f"{good} of {len(tried)} maps" if len(tried) > 1 else ("The map" if good else "No map")
    verb = "point" if len(tried) > 1 else "points"
    return f"{said} {verb} to what the answer comes from better than a random map does."


def _name(study: Study) -> str:
    return Path(study.name).name


def _link(study: Study, number: int) -> str:
    name = f"{text(study.label)}<i>{text(_name(study))}</i>"
    return f'<li><a href="#picture-{number}"><b>{number + 1}</b><span>{name}</span></a></li>'


# ---- what the script reads ------------------------------------------------------------------------------------------


def _data(study: Study, predictor: Predictor, limit: int) -> dict[str, Any]:
    maps = {found.explanation.method: _map(found) for found in study.findings}
    rows, columns = study.findings[0].explanation.heat.shape
    told: dict[str, Any] = {"grid": [rows, columns], "maps": maps, "attention": None}
    if isinstance(predictor.model, ViT):
        with evaluating(predictor.model):
            found = attention_data(predictor.model, as_input(predictor, study.pixels), limit)
        layers, heads = found.shares.shape[:2]
        told["attention"] = {
            "grid": list(found.grid),
            "fit": [rows / found.together, columns / found.together],  # cells in the picture
            "layers": layers,
            "heads": heads - 1,
            "together": found.together,
            "shares": _base64(found.shares),
            "largest": _base64(found.largest.astype("<f4")),
        }
    return told


def _map(found: Finding) -> str:
    return _base64((255 * scaled(found.explanation.heat)).round().astype(np.uint8))


def _base64(array: NDArray[Any]) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


# ---- one picture ----------------------------------------------------------------------------------------------------


def _section(study: Study, number: int, told: dict[str, Any]) -> str:
    second = _attention_figure(study, number, told["attention"]) if told["attention"] else ""
    taken = "" if _is_answer(study) else f", taken for {study.prediction.label}"
    return f"""
<section class="study" id="picture-{number}" data-number="{number}" aria-labelledby="title-{number}">
  <h2 id="title-{number}">{text(study.label)} <span>{100 * study.probability:.1f} %</span></h2>
  <p class="note">{text(_name(study))}{text(taken)}</p>
  <div class="pair">{_map_figure(study, number)}{second}</div>
</section>"""


def _map_figure(study: Study, number: int) -> str:
    best = max(study.findings, key=lambda found: found.trust.score if found.trust else 0.0)
    choices = "".join(_choice(found, number, found is best) for found in study.findings)
    return f"""
<figure class="of-map">
  <figcaption>Where the answer comes from</figcaption>
  <div class="stage" style="--shape:{_shape(study)}">{_picture(study)}<canvas></canvas></div>
  <p class="scale"><span>least</span><i></i><span>most</span></p>
  <fieldset><legend>Method</legend>{choices}</fieldset>
</figure>"""


def _choice(found: Finding, number: int, chosen: bool) -> str:
    method = found.explanation.method
    trust = found.trust
    said = "not tried" if trust is None else f"{trust.words}, score {trust.score:+.2f}"
    mark = "" if trust is None or trust.better_than_random else ' class="doubt"'
    checked = " checked" if chosen else ""
    return (
        f'<label><input type="radio" name="method-{number}" value="{text(method)}"{checked}>'
        f"<span><b>{text(method)}</b> {text(METHODS[method].words)} <em{mark}>{text(said)}</em></span></label>"
    )


def _attention_figure(study: Study, number: int, told: dict[str, Any]) -> str:
    layers, heads, together = told["layers"], told["heads"], told["together"]
    coarse = f" To keep the page small, {together} x {together} patches are shown as one." if together > 1 else ""
    return f"""
<figure class="of-attention">
  <figcaption>What a patch attends to</figcaption>
  <div class="stage" tabindex="0" role="group" aria-label="Patches of the picture; arrow keys move, Escape leaves"
    aria-describedby="said-{number}" style="--shape:{_shape(study)}">{_picture(study)}<canvas></canvas>
    <i class="asked" hidden></i></div>
  <p class="said" id="said-{number}" role="status"></p>
  {_slider("Layer", 1, layers, layers)}{_slider("Head", 0, heads, 0)}
  <p class="note">Point at a patch, or move with the arrow keys; Escape asks the answer itself.{coarse}</p>
</figure>"""


def _slider(name: str, least: int, most: int, value: int) -> str:
    given = f'class="{name.lower()}" min="{least}" max="{most}" value="{value}"'
    return f'<label class="slide">{name} <input type="range" {given}><output></output></label>'


def _picture(study: Study) -> str:
    return img(study.pixels, SIDE, text(_name(study)))


def _shape(study: Study) -> str:
    rows, columns = study.pixels.shape[:2]
    return f"{columns}/{rows}"
