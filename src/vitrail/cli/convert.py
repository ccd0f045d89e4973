"""`vitrail convert SOURCE TARGET --to FORMAT`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from vitrail.cli.output import console, print_json

Target = Literal["vitrail", "timm", "huggingface", "google", "torchvision", "vit-pytorch"]


def command(
    source: str,
    target: Path,
    /,
    *,
    to: Target = "vitrail",
    heads: int | None = None,
    image_size: int | None = None,
    classes: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write weights in another layout. What was written is read back and compared before it takes its name.

    Parameters
    ----------
    source
        A file or folder in any known layout, a run, or hf-hub:owner/name. The layout is told by the content.
    target
        The file to write; a folder for huggingface, and for timm if it has no ending.
    to
        The layout to write.
    heads
        The number of heads, where foreign weights cannot tell.
    image_size
        Move the positions to this image size first.
    classes
        A text file with one class name a line, to store with the model.
    overwrite
        Replace an existing target.
    json
        Print one JSON document.
    """
    from vitrail.weights.convert import convert
    from vitrail.weights.load import load

    settings: dict[str, Any] = {} if heads is None else {"heads": heads}
    artefact = load(source, image_size=image_size, **settings)
    if classes is not None:
        artefact.set_classes(_read_names(classes))
    difference = convert(artefact, target, to, overwrite=overwrite)
    if json:
        print_json({"source": source, "target": str(target), "to": to, "max_difference": difference})
    else:
        console().print(f"{artefact.source} -> {to}, logits equal to {difference:.1e}\n{target}", markup=False)


def _read_names(path: Path) -> tuple[str, ...]:
    from vitrail.errors import FileError

    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot be read: {error}", where=path, fix="give a text file, one name a line") from error
