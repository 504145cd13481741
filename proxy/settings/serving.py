"""The `serving` section: the data port, its limits and its shutdown."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from proxy.settings.types import (
    Address,
    Duration,
    FilePath,
    StrictModel,
    Timeout,
)

Percent = Annotated[int, Field(ge=1, le=100)]
# At most what the parser accepts; at least what a client without impersonation headers needs.
HeaderLineCount = Annotated[int, Field(ge=64, le=4096)]
# From what a token of the default size needs, also in a WebSocket subprotocol, to a whole head.
HeaderLineBytes = Annotated[int, Field(ge=96 * 1024, le=1024 * 1024)]
# Selectors and continue tokens of real clients need some kilobytes; a head has 1 MiB.
TargetBytes = Annotated[int, Field(ge=8192, le=1024 * 1024)]
# From the number parsed before authentication to what a review of the default size can contain.
SelectorTerms = Annotated[int, Field(ge=64, le=10_000)]
# From what one certificate needs to what the chain verifier accepts.
HandshakeBytes = Annotated[int, Field(ge=4096, le=32_768)]


class ServingLimitSettings(StrictModel):
    """Deadlines and limits of client connections and requests."""

    handshake_timeout_seconds: Timeout = Field(default=10.0, alias="handshakeTimeout")
    """Deadline of the TLS handshake. Afterwards the connection is closed."""

    read_header_timeout_seconds: Timeout = Field(default=32.0, alias="readHeaderTimeout")
    """Deadline of a complete request head. Afterwards the connection is closed."""

    idle_timeout_seconds: Timeout = Field(default=90.0, alias="idleTimeout")
    """A connection without a request for this long is closed."""

    unauthenticated_idle_timeout_seconds: Timeout = Field(
        default=10.0, alias="unauthenticatedIdleTimeout"
    )
    """Idle timeout of a connection without an authenticated request so far."""

    response_progress_timeout_seconds: Timeout = Field(
        default=60.0, alias="responseProgressTimeout"
    )
    """Period in which a client must read 64 KiB of a response, or all pending bytes. Otherwise the
    connection is closed. Watches, logs, exec and other long-running requests are exempt."""

    handshake_bytes: HandshakeBytes = 16 * 1024
    """Bytes that a client may send in its TLS handshake, mostly certificates. When exceeded, the
    connection is closed."""

    unauthenticated_bytes: PositiveInt = 64 * 1024 * 1024
    """Bytes of memory for unauthenticated callers: handshakes, heads, tokens under review. When
    exceeded, the connection that holds the most receives 429 and is closed."""

    unauthenticated_address_percent: Percent = 50
    """Share of unauthenticatedBytes, in percent, for one address (IPv6: one /64 network)."""

    connections: PositiveInt = 10_000
    """Open connections. When exceeded, the unauthenticated connection that was idle for longest is
    closed. If there is none, the new one is closed before the handshake. A connection may need two
    file descriptors."""

    connections_per_address: PositiveInt = 5_000
    """Open connections of one address (IPv6: one /64 network), with the same effect."""

    reads_in_flight: PositiveInt = 400
    """Concurrent read requests. When exceeded, the client receives 429. Watches, logs, exec and
    other long-running requests are not counted."""

    writes_in_flight: PositiveInt = 200
    """Concurrent write requests, with the same effect."""

    caller_percent: Percent = 75
    """Share of readsInFlight and writesInFlight, in percent, for one caller. When exceeded, the
    caller receives 429."""

    unauthenticated_slice_seconds: Timeout = Field(default=0.001, alias="unauthenticatedSlice")
    """Time per event-loop iteration for TLS handshakes and requests of unauthenticated clients.
    More input waits for the next iterations."""

    caller_long_running: NonNegativeInt = 0
    """Concurrent watches, logs, exec and other long-running requests of one caller. When exceeded,
    the caller receives 429. 0: no limit."""

    header_lines: HeaderLineCount = 1200
    """Header lines of one request. When exceeded, the client receives 431."""

    header_line_bytes: HeaderLineBytes = 128 * 1024
    """Bytes of one header line. When exceeded, the client receives 431 before the rest is read."""

    target_bytes: TargetBytes = 64 * 1024
    """Bytes of path and query of one request. When exceeded, the client receives 414. The query of
    exec, attach, portforward and proxy requests is exempt."""

    selector_terms: SelectorTerms = 1000
    """Requirements and values in the label and the field selector of one request together. When
    exceeded, the client receives 400. Targets of up to 256 bytes are not counted."""


class ShutdownSettings(StrictModel):
    """Graceful shutdown after SIGTERM."""

    delay_seconds: Duration = Field(default=10.0, alias="delay")
    """Time for which the proxy reports not ready but still serves, so that load balancers remove
    it."""

    watch_window_seconds: Duration = Field(default=10.0, alias="watchWindow")
    """After the delay watches and followed logs are closed gracefully, spread evenly over this
    time, so that their clients do not reconnect all at once."""

    grace_period_seconds: Timeout = Field(default=25.0, alias="gracePeriod")
    """Total time, including the delay. Afterwards remaining requests are aborted, also exec and
    port-forward. Keep it below the pod's terminationGracePeriodSeconds."""

    @model_validator(mode="after")
    def _check_grace_period(self) -> "ShutdownSettings":
        if self.delay_seconds + self.watch_window_seconds > self.grace_period_seconds:
            raise ValueError("delay and watchWindow together must not exceed gracePeriod")
        return self


class ServingSettings(StrictModel):
    """The data port, which clients connect to."""

    address: Address = Field(default=("0.0.0.0", 8443), validate_default=False)  # noqa: S104 - a server listens everywhere
    """Listen address. Port 0 selects a free port and logs it."""

    certificate_file: FilePath
    """PEM file of the serving certificate chain."""

    key_file: FilePath
    """PEM private key of the certificate."""

    certificate_refresh_seconds: Timeout = Field(default=10.0, alias="certificateRefresh")
    """Interval at which certificate, key and client CAs are reread. New contents apply at once."""

    limits: ServingLimitSettings = ServingLimitSettings()
    """Deadlines and limits of client connections and requests."""

    max_connection_age_seconds: Timeout = Field(default=3600.0, alias="maxConnectionAge")
    """Approximate maximum age of a connection. It is then closed after the next response, so that
    clients spread over replicas that started later."""

    shutdown: ShutdownSettings = ShutdownSettings()
    """Graceful shutdown after SIGTERM."""
