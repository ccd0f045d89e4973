"""Ask `vitrail serve` about pictures, with nothing but Python itself.

    python examples/client.py http://localhost:8000 rex.jpg more/*.jpg

A server that is full says when to come back; that is waited for. The token, if there is one, is VITRAIL_TOKEN's.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE = 5  # times to come back


def ask(server: str, picture: bytes, top: int = 3) -> dict[str, Any]:
    """The prediction, or `{"error": why not}`."""
    headers = {"Content-Type": "application/octet-stream"}
    if token := os.environ.get("VITRAIL_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{server.rstrip('/')}/v1/predict?top={top}", picture, headers)
    for _ in range(PATIENCE):
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["predictions"][0]
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = json.load(refusal)
                if refusal.code != 503:
                    return {"error": said["error"]}
                time.sleep(int(refusal.headers["Retry-After"]))
    return {"error": "the server stayed full"}


def main(server: str, *pictures: str) -> int:
    failed = 0
    for path in pictures:
        answer = ask(server, Path(path).read_bytes())
        if "error" in answer:
            failed += 1
            print(f"{path}: {answer['error']}", file=sys.stderr)
        else:
            label = "not sure" if answer["unknown"] else ", ".join(answer["labels"])
            print(f"{path}: {label} ({answer['label']} {answer['probability']:.0%})")
    return 3 if failed == len(pictures) else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
