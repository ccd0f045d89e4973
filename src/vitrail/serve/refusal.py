"""No, written in advance: what a full server says to a request when it has seen only its head.

Under overload most requests are refused, so a refusal must cost next to nothing, or refusing is what the server does.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from http import HTTPStatus

from vitrail.serve.watch import HEADERS

# A head that every parser reads alike. Any other goes to the real parser, however full the server is.
PLAIN = re.compile(rb"POST [!-~]+ HTTP/1\.1\r\n(?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*\r\n){1,100}\r\n")
LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n)")
LENGTHS = re.compile(rb"(?i)\r\ncontent-length:")
# Headers that change where the request ends, or what happens after it
SPECIAL = re.compile(rb"(?i)\r\n(?:transfer-encoding|expect|upgrade|connection:(?![ \t]*keep-alive[ \t]*\r))")


def plain_length(data: bytes, largest: int) -> int | None:
    """Bytes of the POST that `data` begins, head and body; None if a parser should say, or more than one has come."""
    head = PLAIN.match(data)
    if head is None or len(LENGTHS.findall(data, 0, head.end())) != 1 or SPECIAL.search(data, 0, head.end()):
        return None
    length = LENGTH.search(data, 0, head.end())
    if length is None or int(length[1]) > largest:
        return None
    whole = head.end() + int(length[1])
    return whole if len(data) <= whole else None


@lru_cache(64)
def written(status: int, what: str, retry_after: int, *, close: bool) -> bytes:
    """An answer as it goes over the wire."""
    body = json.dumps({"error": what}).encode()
    headers = {
        **HEADERS,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Retry-After": str(retry_after),
        **({"Connection": "close"} if close else {}),
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
