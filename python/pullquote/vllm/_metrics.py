"""What vLLM's ``/metrics`` says of the plugins; with several API servers, of all of them together."""

from prometheus_client import Gauge

__all__ = ["PLANNED", "PRESENT"]

PRESENT = Gauge(
    "pullquote_requests_in_flight", "Requests to /v1/highlights that are answered or wait", multiprocess_mode="livesum"
)
PLANNED = Gauge(
    "pullquote_requests_planned", "Requests to the IO processor that wait for vectors", multiprocess_mode="livesum"
)
