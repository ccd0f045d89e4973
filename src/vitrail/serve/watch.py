"""Every request: its headers set, its refusal said, its fault hidden, its line in the log."""

from __future__ import annotations

import json
import logging
import secrets
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitrail.errors import one_line
from vitrail.serve.limits import Gate, linger
from vitrail.serve.problems import Refused

LOG = logging.getLogger("vitrail.serve")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
REQUEST_ID = "vitrail.request"  # of the scope
GONE = 499  # in the log and figures only: the client left before its answer


class Watch:
    """The outermost layer. Whatever is raised below becomes an answer here, and a request always one line of log."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = Answer(scope, receive, send, self.gate.draining)
        try:
            await self.app(scope, answer.receive, answer.send)
        except Refused as refusal:
            await answer.refuse(refusal)
        except ClientDisconnect:
            answer.status = GONE
        except Exception:
            LOG.exception("request %s failed", answer.id)
        finally:
            self.note(answer)

    def note(self, answer: Answer) -> None:
        route, seconds = answer.route, time.perf_counter() - answer.start
        self.gate.metrics.requests.labels(route, str(answer.status)).inc()
        self.gate.metrics.seconds.labels(route).observe(seconds)
        LOG.info("request", extra={"request": answer.facts(seconds)})


class Answer:
    """One request on its way in, and its answer on its way out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, last: bool) -> None:
        self.scope, self._receive, self._send, self._last = scope, receive, send, last
        self.id, self.start, self.status = secrets.token_hex(8), time.perf_counter(), 0
        scope[REQUEST_ID] = self.id
        self.more = "expect" not in Headers(scope=scope)  # one that waits to be asked has sent nothing

    async def receive(self) -> Message:
        message = await self._receive()
        self.more = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-Id"] = self.id
            if self._last:  # a server that is leaving keeps no connection
                headers["Connection"] = "close"
        await self._send(message)

    async def refuse(self, refusal: Refused) -> None:
        """The whole answer goes out before the rest of the request is read and forgotten; then the end is marked."""
        response = refusal.response()
        await self.send(
            {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await self.send({"type": "http.response.body", "body": response.body, "more_body": True})
        if self.more:
            await linger(self.receive)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def route(self) -> str:
        return getattr(self.scope.get("route"), "path", "other")

    def facts(self, seconds: float) -> dict[str, Any]:
        return {
            "id": self.id,
            "client": (self.scope.get("client") or ("",))[0],
            "method": self.scope["method"],
            "path": self.scope["path"],
            "status": self.status,
            "milliseconds": round(seconds * 1000, 1),
        }


class Lines(logging.Formatter):
    """One line a record: JSON, or text. Control characters that a client sent stay escaped."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        facts = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        facts |= getattr(record, "request", {"message": record.getMessage()})
        trace = self.formatException(record.exc_info) if record.exc_info else None
        if self.as_json:
            return json.dumps(facts | ({"traceback": trace} if trace else {}))
        line = one_line(" ".join(str(value) for value in facts.values()))
        return f"{line}\n{trace}" if trace else line


def start_logging(as_json: bool) -> None:
    """To stderr: our own lines, and uvicorn's warnings in the same form."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(as_json))
    for logger, level in ((LOG, logging.INFO), (logging.getLogger("uvicorn.error"), logging.WARNING)):
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(level)
