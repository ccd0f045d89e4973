"""`vitrail models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from vitrail.cli.output import console, millions, print_json, table

if TYPE_CHECKING:
    from vitrail.weights.artefact import Artefact


def command(pattern: str = "", *, json: bool = False) -> None:
    """The models that can be built by name: `create_model(NAME)`, or as `--model NAME`.

    Parameters
    ----------
    pattern
        Show only names that contain this.
    json
        Print one JSON document.
    """
    rows = [row for row in _rows() if pattern.lower() in f"{row['name']} {row['timm']}".lower()]
    if json:
        print_json(rows)
        return
    shown = table("Models", "name", "timm's name", "image", "patch", "weights", right=("weights",))
    for row in rows:
        size, patch = row["image_size"], row["patch_size"]
        cells = [row["name"], row["timm"], f"{size}", f"{patch or ''}", millions(row["parameters"])]
        shown.add_row(*map(Text, cells))
    console().print(shown)
    console().print(
        'Any patch and image size goes: "S/8", "B/16@448". Weights are counted with 1000 classes.', style="dim"
    )


def _rows() -> list[dict[str, Any]]:
    import torch

    from vitrail.config import ViTConfig
    from vitrail.model import create_model
    from vitrail.model.cost import count_parameters
    from vitrail.model.sizes import CATALOG

    rows = []
    for row in CATALOG:
        with torch.device("meta"):
            model = create_model(row.name)
        config = model.config
        rows.append(
            {
                "name": row.name,
                "timm": row.timm,
                "image_size": config.image_size[0],
                "patch_size": config.patch_size[0] if isinstance(config, ViTConfig) else None,
                "parameters": count_parameters(model),
            }
        )
    return rows


def open_model(source: str, heads: int | None = None) -> Artefact:
    """What a command's MODEL means: a file, folder or hub name, or else a model by name with fresh weights."""
    from vitrail.errors import ConfigError
    from vitrail.model import create_model
    from vitrail.weights.artefact import Artefact
    from vitrail.weights.load import is_stored, load

    if is_stored(source):
        settings: dict[str, Any] = {} if heads is None else {"heads": heads}
        return load(source, **settings)
    try:
        return Artefact(create_model(source), source=f"{source} (by name, fresh weights)")
    except ConfigError as error:
        if not error.what.startswith("there is no model"):
            raise
        raise ConfigError(f"there is no file and no model {source!r}", fix=error.fix) from error
