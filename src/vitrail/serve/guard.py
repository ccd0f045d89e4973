"""Who may ask: a known Host, pages of this server, holders of the token."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from vitrail.serve.problems import Refused
from vitrail.serve.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::", "")
# What a browser needs before it can ask for the token, and what a balancer asks without one; none of it tells anything.
OPEN = ("/", "/docs", "/openapi.json", "/live", "/ready", "/v2/health/live", "/v2/health/ready")
OPEN_BELOW = "/static/"
MOST_HEADERS, LARGEST_HEADERS = 100, 16 * 1024
QUIET_SITES = (None, "same-origin", "none")


class Guard:
    """Refuses before a body is read. A page elsewhere cannot use a visitor's browser to ask this server."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.token = None if settings.token is None else settings.token.encode("ascii")
        own = () if settings.host in WILDCARDS else (settings.host,)
        self.hosts = {host.lower() for host in (*LOOPBACK, *own, *settings.allow_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            check_form(scope)
            self.check_host(headers, scope)
            self.check_origin(headers, scope["method"])
            self.check_token(headers, scope["path"])
        await self.app(scope, receive, send)

    def check_host(self, headers: Headers, scope: Scope) -> None:
        """Against DNS rebinding: a known name, or the very address that the connection came in at."""
        sent = headers.getlist("host")
        name = host_name(sent[0]) if len(sent) == 1 else None
        address = (scope.get("server") or ("",))[0]
        if name is None or (name not in self.hosts and name != address):
            raise Refused(421, "this server does not answer to that Host; start it with --allow-host NAME")

    def check_origin(self, headers: Headers, method: str) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if method in ("GET", "HEAD") and origin is None:
            return
        same = origin is None or urlsplit_host(origin) == headers["host"].lower()
        if not same or site not in QUIET_SITES:
            raise Refused(403, "only this server's own page may ask from a browser")

    def check_token(self, headers: Headers, path: str) -> None:
        if self.token is None or path in OPEN or path.startswith(OPEN_BELOW):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        # Compared in a time that does not tell how much of it was right
        if not hmac.compare_digest(given.encode("utf-8"), self.token) or kind.lower() != "bearer":
            raise Refused(401, "a token is needed: send the header Authorization: Bearer TOKEN")


def check_form(scope: Scope) -> None:
    """What the parser lets through when it comes in one piece."""
    if scope["http_version"] not in ("1.0", "1.1"):
        raise Refused(400, "speak HTTP/1.1")
    headers = scope["headers"]
    if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
        raise Refused(431, "too many or too large headers")


def host_name(host: str) -> str | None:
    """The name in a Host header, without its port and brackets; None where there is none."""
    try:
        parts = urlsplit(f"//{host}")
        clean = parts.netloc == host and parts.username is None and (parts.port is None or parts.port > 0)
        return parts.hostname if clean else None
    except ValueError:
        return None


def urlsplit_host(origin: str) -> str | None:
    """The host and port of an Origin header, as a Host header has them."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
