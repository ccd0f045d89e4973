"""`vitrail bench model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.cli.output import console, print_json


def command(
    what: Literal["model"] = "model",
    /,
    *,
    quick: bool = False,
    size: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    batch: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    threads: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    mode: Annotated[list[Literal["inference", "training"]] | None, Parameter(consume_multiple=True)] = None,
    repeats: int | None = None,
    out: Path | None = None,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Our model beside timm, transformers and vit-pytorch: speed, memory and logits, interleaved in one run.

    Needs the other libraries: pip install "vitrail[oracle]". Those that are not installed are left out by name.

    Parameters
    ----------
    what
        What is measured: the model.
    quick
        Two small sizes in about two minutes; otherwise everything, one to two hours on two cores.
    size
        Sizes: 32px (patch 4, width 192, depth 9), Ti, S, B, or any of the paper's names.
    batch
        Batch sizes.
    threads
        Numbers of threads.
    mode
        Inference, training, or both.
    repeats
        Rounds of each cell.
    out
        A folder for model-speed.json and model-speed.md.
    seed
        Of the weights, the pictures and the order of the rounds.
    json
        Print one JSON document.
    """
    from rich.console import Console

    from vitrail.bench import FULL, QUICK, bench_models, progress_on, render, write_report

    del what
    preset = QUICK if quick else FULL
    with progress_on(Console(stderr=True)) as progress:
        result = bench_models(size, batch, threads, mode, repeats, progress=progress, preset=preset, seed=seed)
    if json:
        print_json(result)
    else:
        render(result, console())
    for path in write_report(result, out) if out is not None else []:
        if not json:
            console().print(str(path), markup=False)
