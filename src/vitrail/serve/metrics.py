"""Figures for Prometheus, in a registry of their own."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """`route` is a pattern of the server's own, never a path that was sent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": "vitrail"}
        self.requests = Counter("requests", "Requests answered.", ("route", "status"), **made)
        self.seconds = Histogram("request_seconds", "From headers to answer.", ("route",), buckets=SECONDS, **made)
        self.pictures = Counter("pictures", "Pictures: answered, unknown or unreadable.", ("outcome",), **made)
        self.batches = Histogram("batch_size", "Pictures answered at once.", buckets=(1, 2, 4, 8, 16), **made)
        self.waiting = Gauge("requests_inside", "Requests being answered or waiting for it.", **made)
        self.held = Gauge("held_bytes", "Bodies held in memory.", **made)
        self.ready = Gauge("ready", "1 while new requests are welcome.", **made)

    def text(self) -> bytes:
        return generate_latest(self.registry)
