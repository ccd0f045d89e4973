"""The application: routes inside, `Limits`, `Guard` and `Watch` around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import python_multipart  # noqa: F401 # which Starlette asks for only when the first form comes
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from vitrail.page.document import resource
from vitrail.predict.predictor import Predictor
from vitrail.serve import v1, v2
from vitrail.serve.batcher import Streams
from vitrail.serve.connection import Server
from vitrail.serve.door import listen
from vitrail.serve.guard import Guard
from vitrail.serve.limits import Limits
from vitrail.serve.metrics import CONTENT_TYPE
from vitrail.serve.problems import Refused
from vitrail.serve.service import Service
from vitrail.serve.settings import Settings
from vitrail.serve.watch import REQUEST_ID, Watch
from vitrail.version import __version__

PAGE = "vitrail.serve.page"
# Every file that can be had, by name: no path that is sent ever reaches the disk.
STATIC = {
    "theme.css": ("vitrail.page", "text/css"),
    "serve.css": (PAGE, "text/css"),
    "serve.js": (PAGE, "text/javascript"),
    "heat.js": (PAGE, "text/javascript"),
    "camera.js": (PAGE, "text/javascript"),
    "docs.js": (PAGE, "text/javascript"),
    "icon.svg": (PAGE, "image/svg+xml"),
}
READINESS: dict[int | str, dict[str, Any]] = {200: {"description": "Yes."}, 503: {"description": "No."}}


def create_app(predictor: Predictor, settings: Settings, streams: Streams | None = None) -> tuple[ASGIApp, Service]:
    """What an ASGI server runs, and what it is made around."""
    service = Service(predictor, settings, streams)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title=f"Vitrail: {settings.name}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        responses=v1.GUARDED,
    )
    app.include_router(v1.routes(service))
    app.include_router(v2.routes(service))
    add_health(app, service)
    add_pages(app)
    add_refusals(app)
    return Watch(Guard(Limits(app, service.gate), settings), service.gate), service


def run(
    predictor: Predictor,
    settings: Settings,
    started: Callable[[Service, int], None],
    streams: Streams | None = None,
) -> None:
    """Serve until a signal comes, and leave in order. `started` is told the port once connections are taken."""
    with listen(settings.host, settings.port) as socket:
        app, service = create_app(predictor, settings, streams)
        Server(app, service.gate, lambda port: started(service, port)).run(sockets=[socket])


def add_health(app: FastAPI, service: Service) -> None:
    @app.get("/live", tags=["health"], response_class=Response)
    @app.get("/v2/health/live", tags=["health"], response_class=Response)
    async def live() -> Response:
        """200 while the process answers; if it does not, restart it."""
        return Response()

    @app.get("/ready", tags=["health"], response_class=Response, responses=READINESS)
    @app.get("/v2/health/ready", tags=["health"], response_class=Response, responses=READINESS)
    async def ready() -> Response:
        """200 while new requests are welcome; 503 once the server is leaving."""
        return Response(status_code=503 if service.gate.draining else 200)

    @app.get("/metrics", tags=["health"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def add_pages(app: FastAPI) -> None:
    files = {name: (resource(package, name), kind) for name, (package, kind) in STATIC.items()}
    pages = {path: resource(PAGE, name) for path, name in (("/", "index.html"), ("/docs", "docs.html"))}

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> Response:
        return Response(pages[request.url.path], media_type="text/html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in files:
            raise Refused(404, "there is no such file")
        text, kind = files[name]
        return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})


def add_refusals(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return error.response()

    @app.exception_handler(Exception)
    async def fault(request: Request, _: Exception) -> Response:
        return Refused(500, f"something went wrong here; the log has it as {request.scope[REQUEST_ID]}").response()

    @app.exception_handler(HTTPException)
    async def routing(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first: dict[str, Any] = error.errors()[0]
        return Refused(422, f"{first['loc'][-1]}: {first['msg']}").response()
