"""A hub on loopback with just what a client asks for: a listing of a repository, and its files."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def etag(path):
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serve(repositories):
    """`{"owner/name": folder}` served until the block ends; yields the address and the list of paths asked for."""
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(body=True)

        def do_HEAD(self):
            self.answer(body=False)

        def answer(self, *, body):
            asked.append(self.path)
            words = self.path.split("?")[0].strip("/").split("/")
            if words[:2] == ["api", "models"]:
                self.listing("/".join(words[2:4]), tree="tree" in words)
            elif len(words) >= 5 and words[2] == "resolve":
                self.file(repositories.get("/".join(words[:2])), "/".join(words[4:]), body=body)
            else:
                self.send_error(404)

        def listing(self, name, *, tree):
            if name not in repositories:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            info = {"id": name, "sha": COMMIT, "private": False, "tags": []}
            files = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": etag(path)}
                for path in repositories[name].iterdir()
            ]
            self.reply(json.dumps(files if tree else info).encode(), "application/json", COMMIT)

        def file(self, folder, name, *, body):
            if folder is None or not (folder / name).is_file():
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = (folder / name).read_bytes()
            self.reply(data if body else b"", "application/octet-stream", COMMIT, len(data), etag(folder / name))

        def reply(self, data, kind, commit, size=None, tag="listing"):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data) if size is None else size))
            self.send_header("X-Repo-Commit", commit)
            self.send_header("ETag", f'"{tag}"')
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
