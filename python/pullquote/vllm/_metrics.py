"""Metrics in vLLM's ``/metrics``, the sum over all its API servers."""

from prometheus_client import Gauge

__all__ = ["PLANNED", "PRESENT"]

PRESENT = Gauge(
    "pullquote_requests_in_flight", "Requests to /v1/highlights in progress or queued", multiprocess_mode="livesum"
)
PLANNED = Gauge(
    "pullquote_requests_planned", "Requests to the IO processor waiting for vectors", multiprocess_mode="livesum"
)
