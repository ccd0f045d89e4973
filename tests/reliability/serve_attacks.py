"""A hundred and more ways to ask a server for what it must not do: each a name and the bytes that go to its socket."""

from __future__ import annotations

import json
from collections.abc import Callable

from data.picture_kinds import BAD_BYTES
from serve.running import picture
from serve.test_v2 import LIES

TOKEN = "correct horse battery"
CANARY = "http://127.0.0.1:%d/canary.png"
BOMBS = (
    "JPEG of 1,000 scans",
    "JPEG of 200,000 segments",
    "PNG text bomb",
    "PNG profile bomb",
    "PNG of 200,000 chunks",
    "GIF of 100,000 comments",
    "TIFF whose pages loop",
    "TIFF with a tile bomb",
    "bomb of 400 megapixels",
    "JPEG bomb",
    "GIF bomb",
    "BMP bomb",
    "TIFF bomb",
    "WebP bomb",
    "1 x 20000",
    "EPS",
    "PDF",
    "SVG",
    "zip",
    "web page",
)


def http(
    line: str = "GET /v1/model HTTP/1.1",
    *headers: str,
    body: bytes = b"",
    host: str | None = "localhost",
    token: str | None = TOKEN,
    length: bool = True,
) -> bytes:
    """A request as it goes over the wire, right but for what is asked to be wrong."""
    lines = [line, *headers]
    lines += [f"Host: {host}"] if host is not None else []
    lines += [f"Authorization: Bearer {token}"] if token is not None else []
    lines += [f"Content-Length: {len(body)}"] if body and length else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def predict(body: bytes, *headers: str, query: str = "", **how: object) -> bytes:
    kind = [] if any(header.lower().startswith("content-type") for header in headers) else ["Content-Type: image/png"]
    return http(f"POST /v1/predict{query} HTTP/1.1", *kind, *headers, body=body, **how)


def chunked(body: bytes) -> bytes:
    return predict(body, "Transfer-Encoding: chunked", length=False)


def form(*parts: bytes, boundary: str = "b", end: bytes = b"--b--\r\n") -> bytes:
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + end
    return predict(body, f"Content-Type: multipart/form-data; boundary={boundary}")


def part(disposition: str, body: bytes = b"x") -> bytes:
    return f"Content-Disposition: form-data; {disposition}\r\n\r\n".encode() + body


FILE = 'name="file"; filename="a.png"'

HOSTS = {
    "no Host": http(host=None),
    "two Hosts": http("GET /v1/model HTTP/1.1", "Host: evil.example"),
    "HTTP/1.0 without Host": http("GET /v1/model HTTP/1.0", host=None),
    "Host of another": http(host="evil.example"),
    "Host that rebinds": http(host="127.0.0.1.evil.example"),
    "Host with a user": http(host="localhost@evil.example"),
    "Host with a path": http(host="localhost/../x"),
    "Host with a wrong port": http(host="localhost:70000"),
    "absolute target of another host": http("GET http://evil.example/v1/model HTTP/1.1", host="evil.example"),
}
TARGETS = {
    f"target {target[:40]!r}": http(f"GET {target} HTTP/1.1")
    for target in (
        "/../../../etc/passwd",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static/%00theme.css",
        "/static//etc/passwd",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/" + "a" * 8000,
        "/v1/model/",
        "/v2/models/other",
        "/v2/models/..%2f..%2fetc",
        "/v2/models/tiny%2finfer",
        "/v2/repository/index",
        "/v1/predict?url=http://127.0.0.1/",
        "/openapi.json/../v1",
        "/docs/..;/metrics",
        "/.env",
        "/debug/pprof",
        "file:///etc/passwd",
    )
}
METHODS = {
    "TRACE": http("TRACE /v1/model HTTP/1.1"),
    "CONNECT": http("CONNECT 127.0.0.1:80 HTTP/1.1"),
    "PUT a model": http("PUT /v1/model HTTP/1.1", body=b"{}"),
    "DELETE a model": http("DELETE /v2/models/tiny HTTP/1.1"),
    "PATCH a model": http("PATCH /v1/model HTTP/1.1", body=b"{}"),
    "POST to metrics": http("POST /metrics HTTP/1.1", body=b"x"),
    "load a model": http("POST /v2/repository/models/x/load HTTP/1.1", body=b'{"parameters":{"config":"{}"}}'),
    "register memory": http("POST /v2/systemsharedmemory/region/x/register HTTP/1.1", body=b'{"key":"/x"}'),
    "small letters": http("get /v1/model HTTP/1.1"),
    "a method overridden": http("POST /v1/model HTTP/1.1", "X-HTTP-Method-Override: DELETE", body=b"x"),
    "a web socket": http("GET /v1/predict HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/9.9": http("GET / HTTP/9.9"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60) + b"\r\n\r\n",
    "noise": bytes(range(256)) * 4 + b"\r\n\r\n",
}
HEADERS = {
    "one huge header": http("GET /v1/model HTTP/1.1", "X-Huge: " + "a" * 70_000),
    "very many headers": http("GET /v1/model HTTP/1.1", *[f"X-{n}: 1" for n in range(4000)]),
    "a header with a zero": http("GET /v1/model HTTP/1.1", "X-Zero: a\0b"),
    "a header without a colon": http("GET /v1/model HTTP/1.1", "nonsense"),
    "a header with a space in its name": http("GET /v1/model HTTP/1.1", "X Y : 1"),
    "a request line with a return": http("GET /v1/mo\rdel HTTP/1.1"),
    "negative length": predict(b"x", "Content-Length: -1", length=False),
    "length with a sign": predict(b"x", "Content-Length: +1", length=False),
    "length that is no number": predict(b"x", "Content-Length: one", length=False),
    "two lengths": predict(b"xx", "Content-Length: 1"),
    "length beyond all numbers": predict(b"x", "Content-Length: " + "9" * 40, length=False),
    "length beyond the limit": predict(b"x", "Content-Length: 999999999999", length=False),
    "length of more than comes": predict(b"x", "Content-Length: 50", length=False),
    "length and chunks": predict(b"0\r\n\r\nGET /v1/model HTTP/1.1\r\n\r\n", "Transfer-Encoding: chunked"),
    "two codings": predict(b"x", "Transfer-Encoding: gzip, chunked"),
    "unknown coding": predict(b"x", "Transfer-Encoding: xchunked"),
    "compressed": predict(b"\x1f\x8b", "Content-Encoding: gzip"),
    "compressed twice": predict(b"\x1f\x8b", "Content-Encoding: identity, gzip"),
}
CHUNKS = {
    "chunk size that is no number": chunked(b"zz\r\nabc\r\n0\r\n\r\n"),
    "negative chunk": chunked(b"-5\r\nabc\r\n0\r\n\r\n"),
    "chunk without its end": chunked(b"3\r\nabcXX0\r\n\r\n"),
    "chunk with a huge extension": chunked(b"3;" + b"a" * 100_000 + b"\r\nabc\r\n0\r\n\r\n"),
    "chunk of all there is": chunked(b"fffffffffffffffff\r\nabc"),
    "chunks beyond the limit": chunked(
        b"10000\r\n" + b"x" * 65536 + b"\r\n" + (b"10000\r\n" + bytes(65536) + b"\r\n") * 40
    ),
    "chunks without an end": chunked(b"3\r\nabc\r\n"),
    "huge trailer": chunked(b"3\r\nabc\r\n0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"),
}
FORMS = {
    "no boundary": predict(b"--b\r\n", "Content-Type: multipart/form-data"),
    "wrong boundary": form(part(FILE), boundary="other"),
    "boundary of odd characters": form(part(FILE), boundary='"\x01\x02"'),
    "no end": form(part(FILE), end=b""),
    "no parts": form(),
    "not a file": form(part('name="file"', b"/etc/passwd")),
    "an address for a file": form(part('name="file"', CANARY.encode())),
    "another field": form(part('name="model"; filename="m.safetensors"')),
    "a name that climbs": form(part('name="file"; filename="../../../etc/cron.d/x"')),
    "a name of two lines": form(part('name="file"; filename="a%0d%0aX: 1"')),
    "a part without headers": form(b"\r\nx"),
    "a part with a huge header": form(part('name="file"; filename="' + "a" * 100_000 + '"')),
    "a thousand files": form(*[part(FILE)] * 1000),
    "a thousand fields": form(*[part('name="x"')] * 1000),
    "a boundary that burns": predict(b"--b" + b"-" * 500_000, "Content-Type: multipart/form-data; boundary=b"),
    "a form in a form": form(b"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n--c--"),
    "another field's address": predict(b"file=http://x/", "Content-Type: application/x-www-form-urlencoded"),
}
ADDRESSES = {
    "an address as a picture": predict(CANARY.encode()),
    "an address as JSON": predict(json.dumps({"url": CANARY}).encode(), "Content-Type: application/json"),
    "an address in a drawing": predict(
        b'<svg xmlns:x="http://www.w3.org/1999/xlink"><image x:href="%s"/></svg>' % CANARY.encode()
    ),
    "an entity in a drawing": predict(
        b'<?xml version="1.0"?><!DOCTYPE s [<!ENTITY e SYSTEM "file:///etc/passwd">]><svg>&e;</svg>'
    ),
    "a path as a picture": predict(b"/etc/passwd"),
    "a way to explain that climbs": predict(picture(), query="?explain=../../etc/passwd"),
    "a way to explain that runs": predict(picture(), query="?explain=__import__('os')"),
    "very many classes": predict(picture(), query="?top=99999999999999999999"),
    "a number that is none": predict(picture(), query="?top=NaN"),
    "a pickle": predict(b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."),
    "a body to attention": http("POST /v1/attention HTTP/1.1", body=b"x" * 100),
}
SITES = {
    "another site": predict(picture(), "Origin: https://evil.example"),
    "no site": predict(picture(), "Origin: null"),
    "another port": predict(picture(), "Origin: http://localhost:1"),
    "a browser says so": predict(picture(), "Sec-Fetch-Site: cross-site"),
    "may I": http(
        "OPTIONS /v1/predict HTTP/1.1", "Origin: https://evil.example", "Access-Control-Request-Method: POST"
    ),
    "may anyone": http("OPTIONS * HTTP/1.1"),
}
TOKENS = {
    "no token": http(token=None),
    "an empty token": http(token=""),
    "most of a token": http(token=TOKEN[:-1]),
    "more than a token": http(token=TOKEN + "x"),
    "a token in the address": http(f"GET /v1/model?token={TOKEN.replace(' ', '+')} HTTP/1.1", token=None),
    "another scheme": http("GET /v1/model HTTP/1.1", f"Authorization: Basic {TOKEN}", token=None),
    "open path, then not": http("GET /static/../v1/model HTTP/1.1", token=None),
    "open path in other letters": http("GET /LIVE HTTP/1.1", token=None),
    "figures without a token": http("GET /metrics HTTP/1.1", token=None),
}
TENSORS = {
    f"tensor: {name}": http(
        "POST /v2/models/tiny/infer HTTP/1.1", "Content-Type: application/json", body=json.dumps(lie).encode()
    )
    for name, lie in LIES.items()
}
PICTURES: dict[str, Callable[[], bytes]] = {f"picture: {name}": BAD_BYTES[name] for name in BOMBS}

ATTACKS: dict[str, bytes] = {
    **HOSTS, **TARGETS, **METHODS, **HEADERS, **CHUNKS, **FORMS, **ADDRESSES, **SITES, **TOKENS, **TENSORS
}  # fmt: skip
