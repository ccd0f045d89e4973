"""A part of the report's page, and the pieces that several parts use."""

from __future__ import annotations

from typing import NamedTuple

from vitrail.page.document import text


class Section(NamedTuple):
    """Its name in the contents, its title, what it says in words (plain text), and what it shows (markup)."""

    name: str
    title: str
    words: str
    body: str


def figure(caption: str, drawn: str, kind: str = "chart", key: str = "") -> str:
    """A drawing under its caption; `key` is the markup that says which line is which."""
    names = f'<span class="keys">{key}</span>' if key else ""
    return f'<figure class="{kind}"><figcaption>{text(caption)}{names}</figcaption>{drawn}</figure>'


def key(*lines: tuple[str, str]) -> str:
    """Names of lines beside a stroke in their colour, from pairs of name and kind."""
    return "".join(f'<span class="key {kind}"><i></i>{text(name)}</span>' for name, kind in lines)


def bar(share: float) -> str:
    """A bar of 0 to 1."""
    return f'<i class="bar" style="--s:{share:.3f}"></i>'
