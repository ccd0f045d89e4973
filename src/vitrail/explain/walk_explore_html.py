"""The part of the page that can be explored: a frame that explore.js fills from the bytes it carries."""

from __future__ import annotations

import json
from base64 import b64encode
from string import Template

from vitrail.explain.walk_explore import Explore, groups
from vitrail.page.document import resource, text


def explore_section(found: Explore, picture: str) -> str:
    """Markup; `picture` is that of the page's own image."""
    height, width = found.pixels.shape[:2]
    front = "".join(
        f'<button type="button" data-token="{number}" aria-pressed="false">{text(_front_name(name))}</button>'
        for number, name in enumerate(found.front)
    )
    return Template(resource("vitrail.explain", "explore.html")).substitute(
        data=_data(found),
        width=width,
        height=height,
        picture=picture,
        front=front,
        blocks=len(found.attention),
        reduced=text(reduced_words(found)),
    )


def _front_name(name: str) -> str:
    return "class token" if name == "class" else name


def _data(found: Explore) -> str:
    """The arrays as base64, their shapes as JSON, in attributes: no script may carry them."""
    facts = {
        "blocks": found.attention.shape[0],
        "heads": found.attention.shape[1],
        "grid": found.grid,
        "patch": found.patch_size,
        "front": [_front_name(name) for name in found.front],
        "chosen": found.chosen,
        "lookStep": found.look_step,
        "keyStep": found.key_step,
        "looks": groups(found.grid, found.look_step),
        "keys": groups(found.grid, found.key_step),
        "width": found.queries.shape[-1],
        "dimHead": found.dim_head,
        "scale": [[round(value, 4) for value in row] for row in found.query_scale.tolist()],
        "answers": [[[name, round(share, 4)] for name, share in after] for after in found.answers],
    }
    arrays = {"attention": found.attention, "rollout": found.rollout, "queries": found.queries}
    carried = (f'data-{name}="{b64encode(array.tobytes()).decode("ascii")}"' for name, array in arrays.items())
    return f'data-facts="{text(json.dumps(facts))}" {" ".join(carried)}'


def reduced_words(found: Explore) -> str:
    """What was done to make it small."""
    words = "Weights are kept in 8 bits each."
    if found.key_step > 1:
        words += (
            f" To keep the page small, what is looked at is added up over {found.key_step} × {found.key_step} patches."
        )
    if found.look_step > 1:
        words += f" What looks is the mean of {found.look_step} × {found.look_step} patches."
    return words
