"""`vitrail serve MODEL`."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vitrail.errors import MissingExtra

if TYPE_CHECKING:
    from vitrail.predict.predictor import Predictor
    from vitrail.serve.batcher import Streams
    from vitrail.serve.service import Service


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What can be said about a server.

    Parameters
    ----------
    host
        The address to listen on; 0.0.0.0 for all of this machine.
    port
        The port to listen on; 0 for any free one.
    token
        What callers must send as `Authorization: Bearer TOKEN`. Left out: VITRAIL_TOKEN, which lists of processes do
        not show.
    public
        Let other machines ask without a token.
    allow_host
        A name by which callers may know this server; can be repeated.
    name
        What the model is called in answers and addresses. Left out: the name of its file or run.
    engine
        What computes: torch, compile, onnx or openvino, the last two after an export in memory that is compared first;
        auto measures those that are installed and takes the fastest. An exported file has its own.
    max_queue
        Pictures inside at once, or as many as are answered in 15 seconds, if that is fewer; beyond that, callers are
        told to come back later.
    log
        One line a request on stderr, as text or as JSON.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    public: bool = False
    allow_host: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    name: str | None = None
    engine: Literal["auto", "torch", "compile", "onnx", "openvino"] = "auto"
    max_queue: int = 64
    log: Literal["text", "json"] = "text"


PLAIN = Options()
MOST_STREAMS = 4  # calls of the engine at once, with a share of the cores each


def command(model: str, /, *, options: Options = PLAIN) -> None:
    """A model behind HTTP, with a page to drop pictures on. Stop it with Ctrl-C: what was accepted is answered first.

    Only this machine can ask, unless --host says otherwise; other machines need a token, unless --public is given.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    """
    try:
        from vitrail.serve.app import run
        from vitrail.serve.settings import Settings
        from vitrail.serve.watch import start_logging
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "FastAPI", "serve") from None
    from vitrail.deploy.engines import load_with

    settings = Settings(
        name=options.name or model_name(model),
        host=options.host,
        port=options.port,
        token=options.token or os.environ.get("VITRAIL_TOKEN") or None,
        allow_hosts=options.allow_host,
        public=options.public,
        max_queue=options.max_queue,
    )
    predictor = load_with(model, options.engine)
    start_logging(options.log == "json")
    for note in predictor.notes:
        print(f"vitrail: note: {note}", file=sys.stderr)
    run(predictor, settings, say, streams_of(predictor, model))


def streams_of(predictor: Predictor, model: str) -> Streams | None:
    """The engine for several pictures at once, where it has that form and there are cores to share."""
    from vitrail.deploy.engines import in_streams
    from vitrail.serve.batcher import Streams

    number = min(MOST_STREAMS, os.cpu_count() or 1)
    engine = in_streams(predictor, model, number)
    return None if engine is None else Streams(engine, number)


def model_name(model: str) -> str:
    """Of the run, folder or file, in characters that need no escaping in an address."""
    path = Path(model.rpartition(":")[2])
    words = path.resolve().parent.name if path.stem == "model" else path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-._")[:100] or "model"


def say(service: Service, port: int) -> None:
    """Where to look, what was measured, how to stop."""
    host = service.settings.host
    shown = "localhost" if host in ("0.0.0.0", "::", "127.0.0.1") else f"[{host}]" if ":" in host else host
    pace = service.pace
    batches = f"in batches of up to {pace.batch} ({pace.gain:.1f}x)" if pace.batch > 1 else "one by one"
    if pace.streams > 1:
        batches = f"{pace.streams} at once ({pace.gain:.1f}x)"
    rate = 1 / pace.seconds
    shown_rate = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    print(f"serving {service.settings.name}: about {shown_rate} pictures a second, {batches}")
    print(f"page     http://{shown}:{port}/")
    print(f"ask      curl --data-binary @picture.jpg -H 'Content-Type: image/jpeg' http://{shown}:{port}/v1/predict")
    print(f"docs     http://{shown}:{port}/docs")
    print("stop     Ctrl-C", flush=True)
