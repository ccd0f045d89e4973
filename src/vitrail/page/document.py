"""The frame of a page: one self-contained file that asks the net for nothing and runs no script but its own."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

from vitrail.errors import one_line


def document(*, title: str, style: str, body: str, script: str) -> str:
    """The whole file. `title` is plain text; the rest is trusted, with every word from outside through `text`."""
    code = f"\n{script}\n"
    digest = urlsafe_b64encode(sha256(code.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<title>{text(title)}</title>
<style>
{resource("vitrail.page", "theme.css")}
{style}
</style>
</head>
<body>
{body}
<script>{code}</script>
</body>
</html>
"""


def text(words: str) -> str:
    """Any string as text of a page or of an attribute: escaped, without control characters."""
    return escape(one_line(words))


def resource(package: str, name: str) -> str:
    """A text file that belongs to a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
