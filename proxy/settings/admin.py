"""The section `admin`: the port for operators and their tools."""

from pydantic import Field, PositiveInt, model_validator

from proxy.settings.types import (
    Address,
    Duration,
    FilePath,
    StrictModel,
    Timeout,
)


class AdminLimitSettings(StrictModel):
    """How many connections the admin port has, and how long they may wait."""

    connections: PositiveInt = 64
    """Connections at a time. One more closes another: of the address with the most, the oldest."""

    head_timeout_seconds: Timeout = Field(default=10.0, alias="readHeaderTimeout")
    """A new connection without a whole request by then is closed, TLS handshake included."""

    idle_timeout_seconds: Timeout = Field(default=90.0, alias="idleTimeout")
    """A connection without a whole new request for this long after a response is closed."""


class AdminSettings(StrictModel):
    """The port for operators and their tools."""

    address: Address | None = None
    """Where /livez, /readyz, /healthz and /metrics are served. Absent: nowhere."""

    certificate_file: FilePath | None = None
    """PEM certificate chain of this port, which then speaks TLS only. Absent: plain HTTP."""

    key_file: FilePath | None = None
    """PEM private key of that certificate."""

    metrics_require_authorization: bool = False
    """On: /metrics is for bearer tokens whose owner may `get` the path /metrics; needs TLS."""

    kep_metric_names: bool = False
    """On: durations also under the names of the KEP's text, which no server ever had."""

    limits: AdminLimitSettings = AdminLimitSettings()
    """How many connections this port has, and how long they may wait."""

    blocked_loop_seconds: Duration = Field(default=0.25, alias="blockedLoop")
    """An event loop blocked for longer is counted, and logged with the code location. 0s: off."""

    @model_validator(mode="after")
    def _tokens_are_not_sent_in_the_clear(self) -> "AdminSettings":
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificateFile and keyFile belong together")
        if self.metrics_require_authorization and self.certificate_file is None:
            raise ValueError(
                "metricsRequireAuthorization needs certificateFile and keyFile: tokens are secret"
            )
        return self
