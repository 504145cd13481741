"""The `log` and `tracing` sections: the proxy's own log and its traces."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt

from proxy.settings.impersonation import Names
from proxy.settings.types import StrictModel


class LogSettings(StrictModel):
    """The proxy's own log, on standard error."""

    format: Literal["json", "text"] = "json"
    """json: one object per line. text: for reading in a terminal."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is written. No level shows secrets."""

    repeats_per_minute: NonNegativeInt = 60
    """Lines per minute of the same warning or error. When exceeded, further ones are counted. 0: no
    limit."""


PerMillion = Annotated[int, Field(ge=0, le=1_000_000)]


def _check_collector_url(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        # The message omits the value, because it may contain a password.
        raise ValueError("must be the URL of a collector, such as http://collector:4318/v1/traces")
    return value


class TracingSettings(StrictModel):
    """OpenTelemetry traces."""

    endpoint: Annotated[str, AfterValidator(_check_collector_url)] | None = None
    """OTLP over HTTP endpoint for spans. Needs the extra `otel`. Absent: no spans."""

    sampling_rate_per_million: PerMillion = 0
    """Requests per million that start a trace, among those whose caller's trace is not
    continued."""

    trusted_groups: Names = ("system:masters", "system:monitoring")
    """Groups of callers whose trace is continued, and sampled if their `traceparent` requests
    it."""
