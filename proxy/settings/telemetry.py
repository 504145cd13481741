"""The section `log`: our own log."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt

from proxy.settings.impersonation import Names
from proxy.settings.types import StrictModel


class LogSettings(StrictModel):
    """Our own log."""

    format: Literal["json", "text"] = "json"
    """One JSON object a line, or text for people."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important line that is written. No level shows secrets."""

    repeats_per_minute: NonNegativeInt = 60
    """How often one warning or error is written in a minute; the rest is counted. 0: always."""


PerMillion = Annotated[int, Field(ge=0, le=1_000_000)]


def _read_url(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        # Not repeated: somebody may have put a password into it.
        raise ValueError("must be the URL of a collector, such as http://collector:4318/v1/traces")
    return value


class TracingSettings(StrictModel):
    """Spans of our own."""

    endpoint: Annotated[str, AfterValidator(_read_url)] | None = None
    """Where spans are sent, by OTLP over HTTP; needs the extra `otel`. Absent: there are none."""

    sampling_rate_per_million: PerMillion = 0
    """How many requests begin a trace, of those whose caller's trace is not continued."""

    trusted_groups: Names = ("system:masters", "system:monitoring")
    """Whose `traceparent` is continued, sampled if it says so: callers of these groups."""
