"""The section `serving`: the port clients connect to, and how much they may ask of it."""

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
# No more than the parser takes of anybody, and enough for every client that sends no identity.
HeaderLineCount = Annotated[int, Field(ge=64, le=4096)]
# From what a token of the default size needs, in a WebSocket subprotocol too, to a whole head.
HeaderLineBytes = Annotated[int, Field(ge=96 * 1024, le=1024 * 1024)]
# Selectors and continue tokens of real clients need some kilobytes; a head has 1 MiB.
TargetBytes = Annotated[int, Field(ge=8192, le=1024 * 1024)]
# As many as are read before authentication, up to what a review of the default size can carry.
SelectorTerms = Annotated[int, Field(ge=64, le=10_000)]
# From what one certificate needs to what the judge of chains reads.
HandshakeBytes = Annotated[int, Field(ge=4096, le=32_768)]


class ServingLimitSettings(StrictModel):
    """How long clients may take, and how many may come."""

    handshake_timeout_seconds: Timeout = Field(default=10.0, alias="handshakeTimeout")
    """A client that has not finished its TLS handshake by then is cut off."""

    read_header_timeout_seconds: Timeout = Field(default=32.0, alias="readHeaderTimeout")
    """A client that has not finished the head of a request by then is cut off."""

    idle_timeout_seconds: Timeout = Field(default=90.0, alias="idleTimeout")
    """A connection without a request for this long is closed."""

    unauthenticated_idle_timeout_seconds: Timeout = Field(
        default=10.0, alias="unauthenticatedIdleTimeout"
    )
    """The same for a connection that has had no authenticated request yet."""

    response_progress_timeout_seconds: Timeout = Field(
        default=60.0, alias="responseProgressTimeout"
    )
    """In this time a client must take 64 KiB of a response, or all that is pending of it; else it
    is cut off. Watches, logs, exec and the like are exempt."""

    handshake_bytes: HandshakeBytes = 16 * 1024
    """What a client may send in its TLS handshake, above all certificates; more is cut off."""

    unauthenticated_bytes: PositiveInt = 64 * 1024 * 1024
    """Memory held for callers that are not authenticated yet: handshakes, heads, tokens under
    review. Beyond it the connection that holds most is told 429 and closed."""

    unauthenticated_address_percent: Percent = 50
    """How much of it, in percent, one address (IPv6: one /64 network) may hold."""

    connections: PositiveInt = 10_000
    """Connections at a time. A newcomer beyond it gets the place of an unauthenticated connection,
    the one silent for longest, or is closed before the handshake. Each may need two files."""

    connections_per_address: PositiveInt = 5_000
    """The same for one address (IPv6: one /64 network), so that no one takes all places."""

    reads_in_flight: PositiveInt = 400
    """Requests being served that only read; more are told 429. Watches and the like are free."""

    writes_in_flight: PositiveInt = 200
    """The same for requests that may change something."""

    caller_percent: Percent = 75
    """How much of both, in percent, one caller may take; more of its requests are told 429."""

    handshake_slice_seconds: Timeout = Field(default=0.002, alias="handshakeSlice")
    """Of each turn of the event loop, for TLS handshakes; more wait for the next turns."""

    caller_long_running: NonNegativeInt = 0
    """Watches, logs, exec and the like of one caller; more are told 429. 0: any number."""

    header_lines: HeaderLineCount = 1200
    """Header lines of one request; more is a 431."""

    header_line_bytes: HeaderLineBytes = 128 * 1024
    """Longest header line of a request; a longer one is a 431, before the rest of it is read."""

    target_bytes: TargetBytes = 64 * 1024
    """Longest path and query of a request; more is a 414. The query of exec, attach, portforward
    and proxy may have any length that fits a head."""

    selector_terms: SelectorTerms = 1000
    """Requirements and values in label and field selector of one request together; more is a 400.
    Not counted in targets of up to 256 bytes."""


class ShutdownSettings(StrictModel):
    """How clients are let go after SIGTERM."""

    delay_seconds: Duration = Field(default=10.0, alias="delay")
    """Not ready at once, but serving on for this long: time for load balancers to learn of it."""

    watch_window_seconds: Duration = Field(default=10.0, alias="watchWindow")
    """After the delay watches and followed logs end well, spread evenly over this time, so that
    their clients do not come again all at once."""

    grace_period_seconds: Timeout = Field(default=25.0, alias="gracePeriod")
    """All of it, the delay included: what is still under way then is cut off, exec and
    port-forward too. Shorter than the pod's terminationGracePeriodSeconds."""

    @model_validator(mode="after")
    def _everything_fits(self) -> "ShutdownSettings":
        if self.delay_seconds + self.watch_window_seconds > self.grace_period_seconds:
            raise ValueError("delay and watchWindow together must not exceed gracePeriod")
        return self


class ServingSettings(StrictModel):
    """The port clients connect to."""

    address: Address = Field(default=("0.0.0.0", 8443), validate_default=False)  # noqa: S104 - a server's job
    """Where clients connect. Port 0 takes a free one and logs it."""

    certificate_file: FilePath
    """PEM certificate chain shown to clients."""

    key_file: FilePath
    """PEM private key of that certificate."""

    certificate_refresh_seconds: Timeout = Field(default=10.0, alias="certificateRefresh")
    """How often certificate, key and CAs of clients are looked at; what is new is used at once."""

    limits: ServingLimitSettings = ServingLimitSettings()
    """How long clients may take, and how many may come."""

    max_connection_age_seconds: Timeout = Field(default=3600.0, alias="maxConnectionAge")
    """After about this long a connection ends with its next answer, so that clients spread over
    instances that were started later."""

    shutdown: ShutdownSettings = ShutdownSettings()
    """How clients are let go after SIGTERM."""
