"""The `admin` section: the port for probes and scrapers."""

from pydantic import Field, PositiveInt, model_validator

from proxy.settings.types import (
    Address,
    Duration,
    FilePath,
    StrictModel,
    Timeout,
)


class AdminLimitSettings(StrictModel):
    """Connection limits and timeouts of the admin port."""

    connections: PositiveInt = 64
    """Open connections. When exceeded, the oldest connection without an active request is closed,
    of the address with the most connections."""

    head_timeout_seconds: Timeout = Field(default=10.0, alias="readHeaderTimeout")
    """Deadline of the first complete request, including the TLS handshake. Afterwards the
    connection is closed."""

    idle_timeout_seconds: Timeout = Field(default=90.0, alias="idleTimeout")
    """Deadline of the next complete request after a response. Afterwards the connection is
    closed."""


class AdminSettings(StrictModel):
    """The admin port, for probes and scrapers."""

    address: Address | None = None
    """Listen address of /livez, /readyz, /healthz and /metrics. Absent: no admin port."""

    certificate_file: FilePath | None = None
    """PEM certificate chain of this port, which then serves only HTTPS. Absent: HTTP."""

    key_file: FilePath | None = None
    """PEM private key of the certificate."""

    metrics_require_authorization: bool = False
    """true: /metrics needs a bearer token of a user that may `get` the path /metrics. Needs
    certificateFile and keyFile."""

    kep_metric_names: bool = False
    """true: also export durations under the metric names in the text of KEP-5284, which no server
    has ever used."""

    limits: AdminLimitSettings = AdminLimitSettings()
    """Connection limits and timeouts of this port."""

    blocked_loop_seconds: Duration = Field(default=0.25, alias="blockedLoop")
    """Event-loop delay above which a blocked event loop is counted, and logged with the code
    location. 0s: not measured."""

    @model_validator(mode="after")
    def _check_tls(self) -> "AdminSettings":
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificateFile and keyFile must be set together")
        if self.metrics_require_authorization and self.certificate_file is None:
            raise ValueError(
                "metricsRequireAuthorization needs certificateFile and keyFile: tokens must not be "
                "sent in plaintext"
            )
        return self
