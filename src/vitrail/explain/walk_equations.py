r"""One way to write an equation, two ways to show it: MathML for a page, a line of Unicode for a terminal.

The notation is a small part of LaTeX: `_` and `^` with `{...}`, `\frac{}{}`, `\sqrt{}`, and the symbols of the table
below. A word of several letters is the name of a function and stands upright: `softmax(Q K^\top)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

SYMBOLS = {
    "in": "∈",
    "R": "ℝ",
    "times": "×",
    "cdot": "·",
    "top": "⊤",
    "sum": "∑",
    "gamma": "γ",
    "beta": "β",
    "mu": "μ",
    "sigma": "σ",
    "odot": "⊙",
    "ldots": "…",
    "prime": "′",
}
_OPERATORS = {"∈", "×", "·", "∑", "⊙", "…"}

_LOW = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_HIGH = dict(zip("0123456789+-=()in′⊤", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁱⁿ′ᵀ", strict=True))

_TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+|\d+(?:\.\d+)?|\S")


@dataclass(frozen=True)
class Leaf:
    """A letter, number, operator or name."""

    text: str


@dataclass(frozen=True)
class Node:
    """A construct and its parts: row, frac, sqrt, script (base, below, above; an empty row where there is none)."""

    kind: str
    parts: tuple[Leaf | Node, ...]


def text_of(equation: str) -> str:
    """The equation in a line of Unicode, or in several where it has several."""
    return "\n".join(_text(_parse(line)) for line in equation.split("\n"))


def mathml_of(equation: str) -> str:
    """The equation as MathML, displayed on its own; each of its lines is an element."""
    return "".join(f'<math display="block">{_mathml(_parse(line))}</math>' for line in equation.split("\n"))


# ---- reading ------------------------------------------------------------------------------------------------------


def _parse(equation: str) -> Node:
    return _row(iter(_TOKEN.findall(equation)))


def _row(tokens: Iterator[str]) -> Node:
    """Everything up to the closing brace, or the end."""
    parts: list[Leaf | Node] = []
    for token in tokens:
        if token == "}":
            break
        if token in "_^":
            base = parts.pop()
            old = base.parts if isinstance(base, Node) and base.kind == "script" else (base, _NOTHING, _NOTHING)
            script = _argument(tokens)
            new = (old[0], script, old[2]) if token == "_" else (old[0], old[1], script)
            parts.append(Node("script", new))
        else:
            parts.append(_item(token, tokens))
    return Node("row", tuple(parts))


def _item(token: str, tokens: Iterator[str]) -> Leaf | Node:
    if token == "{":
        return _row(tokens)
    if token in (r"\frac", r"\sqrt"):
        count = 2 if token == r"\frac" else 1
        return Node(token[1:], tuple(_argument(tokens) for _ in range(count)))
    return Leaf(SYMBOLS[token[1:]] if token[0] == "\\" else token.replace("-", "−"))


def _argument(tokens: Iterator[str]) -> Node:
    token = next(tokens)
    return _row(tokens) if token == "{" else Node("row", (_item(token, tokens),))


_NOTHING = Node("row", ())


# ---- showing ------------------------------------------------------------------------------------------------------


def _mathml(part: Leaf | Node) -> str:
    if isinstance(part, Leaf):
        return _mathml_leaf(part.text)
    if part.kind == "script":
        base, below, above = part.parts
        tag = "msubsup" if below != _NOTHING and above != _NOTHING else "msub" if below != _NOTHING else "msup"
        shown = [_mathml(inner) for inner in (base, below, above) if inner != _NOTHING]
        return f"<{tag}>{''.join(shown)}</{tag}>"
    tag = {"row": "mrow", "frac": "mfrac", "sqrt": "msqrt"}[part.kind]
    return f"<{tag}>{''.join(map(_mathml, part.parts))}</{tag}>"


def _mathml_leaf(text: str) -> str:
    if text[0].isdigit():
        tag = "mn"
    elif text in _OPERATORS or not text[0].isalpha():
        tag = "mo"
    else:
        tag = "mi"
    return f"<{tag}>{escape(text)}</{tag}>"


def _text(part: Leaf | Node) -> str:
    if isinstance(part, Leaf):
        return f" {part.text} " if part.text in "=+−∈×⊙,;" else part.text
    if part.kind == "script":
        base, below, above = part.parts
        return _text(base) + _script(below, _LOW, "_") + _script(above, _HIGH, "^")
    if part.kind == "frac":
        return " / ".join(_grouped(inner) for inner in part.parts)
    if part.kind == "sqrt":
        return "√" + _grouped(part.parts[0])
    return _spaced(part)


def _spaced(row: Node) -> str:
    """Parts side by side, with a space where two names or letters would run together."""
    line = ""
    for part in row.parts:
        shown = _text(part)
        if line and line[-1] not in " ([·√∑" and (shown[:1].isalpha() or shown[:1] in "√∑"):
            line += " "
        line += shown
    return re.sub(r" +", " ", line).replace("( ", "(").replace(" ,", ",").replace(" ;", ";").strip()


def _grouped(part: Leaf | Node) -> str:
    shown = _text(part)
    return f"({shown})" if " " in shown else shown


def _script(part: Leaf | Node, alphabet: dict[str, str], sign: str) -> str:
    shown = _text(part).replace(" ", "").replace("−", "-")
    if not shown:
        return ""
    if all(letter in alphabet for letter in shown):
        return "".join(alphabet[letter] for letter in shown)
    return f"{sign}{{{_text(part)}}}" if " " in _text(part) else sign + shown
