"""`vitrail data [NAME]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text

from vitrail.cli.output import console, print_json, table

if TYPE_CHECKING:
    from vitrail.data.catalog import Entry


def command(name: str | None = None, /, *, json: bool = False) -> None:
    """Data sets that are known by name. With a name, that one is fetched, checked, and ready for every command.

    Parameters
    ----------
    name
        One of the list, such as fashion-mnist. Left out: the list.
    json
        Print one JSON document.
    """
    from vitrail.data import catalog

    if name is None:
        entries = [_describe(entry) for entry in catalog.CATALOG.values()]
        print_json(entries) if json else _show_all(entries)
        return
    entry = catalog.find(name)
    catalog.get(name, say=lambda line: print(f"vitrail: {line}", file=sys.stderr))
    print_json(_describe(entry)) if json else _show_one(_describe(entry))


def _describe(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "what": entry.what,
        "licence": entry.licence,
        "splits": dict(entry.content.counts),
        "classes": entry.classes,
        "folder": str(entry.folder),
        "ready": entry.folder.is_dir(),
    }


def _show_all(entries: list[dict[str, Any]]) -> None:
    shown = table("Data sets", "name", "pictures", "classes", "what", "licence", "here", right=("pictures", "classes"))
    for entry in entries:
        pictures, here = f"{sum(entry['splits'].values()):,}", "yes" if entry["ready"] else ""
        shown.add_row(entry["name"], pictures, str(len(entry["classes"])), entry["what"], entry["licence"], here)
    out = console()
    out.print(shown)
    out.print("\n`vitrail data NAME` fetches one; `vitrail train NAME` does so too.", style="dim")


def _show_one(entry: dict[str, Any]) -> None:
    splits = ", ".join(f"{number:,} {split}" for split, number in entry["splits"].items())
    out = console()
    out.print(Text(f"{entry['name']}: {splits}; {len(entry['classes'])} classes", style="bold"))
    out.print(Text(", ".join(entry["classes"])))
    out.print(Text(entry["folder"]), soft_wrap=True)
