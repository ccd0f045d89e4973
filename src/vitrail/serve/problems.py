"""How the server says no: a status and `{"error": one line}`, without paths and tracebacks."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from vitrail.errors import VitrailError, one_line

LONGEST = 300  # characters of an error; what a client sent may be quoted in it


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, what: str, *, retry_after: int | None = None, **more: Any) -> None:
        super().__init__(what)
        self.status, self.what, self.retry_after, self.more = status, what, retry_after, more

    def response(self) -> JSONResponse:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"error": one_line(self.what)[:LONGEST], **self.more}, self.status, headers)


def said(error: VitrailError) -> str:
    """What is wrong and the remedy, without the place, which may be a path."""
    return one_line(f"{error.what}; {error.fix}" if error.fix else error.what)
