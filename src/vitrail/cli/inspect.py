"""`vitrail inspect MODEL`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from vitrail.cli.models import open_model
from vitrail.cli.output import console, millions, print_json, table, times

if TYPE_CHECKING:
    from vitrail.weights.artefact import Artefact


def command(model: str, /, *, check: bool = True, heads: int | None = None, json: bool = False) -> None:
    """What is in a model: its shape, parts, weights, classes and preprocessing, and whether it still answers as saved.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, hf-hub:owner/name, or the name of a model (`vitrail models`).
    check
        Compare the golden answers stored in the file with the model's.
    heads
        The number of heads, where foreign weights cannot tell.
    json
        Print one JSON document.
    """
    artefact = open_model(model, heads)
    found = _describe(artefact, check)
    if json:
        print_json(found)
    else:
        _show(found)


def _describe(artefact: Artefact, check: bool) -> dict[str, Any]:
    from vitrail.model.cost import cost_table

    parts = cost_table(artefact.model)
    return {
        "source": artefact.source,
        "kind": type(artefact.model).__name__,
        "config": artefact.model.config.to_dict(),
        "parameters": parts[-1].parameters,
        "macs": parts[-1].macs,
        "parts": [part._asdict() for part in parts],
        "classes": artefact.classes,
        "preprocessing": artefact.preprocessing.to_dict() if artefact.preprocessing else None,
        "golden_difference": artefact.check() if check and artefact.golden else None,
    }


def _show(found: dict[str, Any]) -> None:
    config = found["config"]
    out = console()
    out.print(Text(f"{found['kind']}  {found['source']}", style="bold"))
    facts = table("", "", "")
    facts.show_header = False
    for name, value in _facts(found).items():
        facts.add_row(Text(name, style="dim"), Text(value))
    out.print(facts)
    parts = table("Parts", "part", "weights", "M multiply-adds", right=("weights", "M multiply-adds"))
    for part in found["parts"]:
        parts.add_row(part["name"], f"{part['parameters']:,}", f"{part['macs'] / 1e6:,.1f}")
    out.print(parts)
    settings = table("Settings", "setting", "value")
    for name, value in config.items():
        settings.add_row(name, Text(str(value)))
    out.print(settings)


def _facts(found: dict[str, Any]) -> dict[str, str]:
    config, classes, steps = found["config"], found["classes"], found["preprocessing"]
    facts = {
        "weights": f"{millions(found['parameters'])} ({found['parameters']:,})",
        "multiply-adds": f"{found['macs'] / 1e9:.2f} G a picture",
        "input": f"{config['channels']} x {times(config['image_size'])}",
        "classes": _listed(classes) if classes else f"{config['num_classes']} without names",
        "preprocessing": f"mean {steps['mean']}, std {steps['std']}, crop {steps['crop']}" if steps else "not stored",
    }
    if found["golden_difference"] is not None:
        facts["golden answers"] = f"hold (largest difference {found['golden_difference']:.1e})"
    return facts


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return f"{len(names)}: {shown}" + (" ..." if len(names) > 8 else "")
