"""The API servers we may talk to: in which order they are tried, and which are left in peace.

They are one cluster: one CA, one credential of ours. The first that can be reached is used, so
that a request sees the same server's memory as the one before it whenever that is possible.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# How long an endpoint that could not be reached is tried last. Long enough that requests do not
# queue at a dead one, short enough that one that came back is soon in use.
REST_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """Where an API server is, and the TLS settings that verify it and present us.

    Each is equal to itself alone: a new certificate makes a new one.
    """

    host: str
    port: int
    server_name: str
    context: ssl.SSLContext

    @property
    def address(self) -> str:
        """Return host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return where its paths begin."""
        return f"https://{self.address}"


class EndpointProvider(Protocol):
    """Who knows the endpoints of this moment: they change when our certificate or a CA does."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return every endpoint, best first; never none."""
        ...


class EndpointSet:
    """The endpoints of one cluster, and the memory of which could not be reached."""

    def __init__(self, known: EndpointProvider, clock: Callable[[], float]) -> None:
        self.known = known
        self._clock = clock
        # By address, because what could not be reached does not change with our certificate.
        self._rests_until: dict[str, float] = {}

    @property
    def all(self) -> tuple[Endpoint, ...]:
        """Return the endpoints of this moment."""
        return self.known.endpoints

    def in_order(self) -> list[Endpoint]:
        """Return every endpoint in the order in which to try them: those at rest come last.

        None is left out: if all rest, the one tried last may still be the one that answers.
        """
        ready: list[Endpoint] = []
        resting: list[Endpoint] = []
        for endpoint in self.known.endpoints:
            (ready if self._is_ready(endpoint) else resting).append(endpoint)
        return ready + resting

    def failed(self, endpoint: Endpoint, error: Exception) -> None:
        """Let an endpoint rest that could not be reached."""
        address = endpoint.address
        if address not in self._rests_until:
            log.warning(
                "API server endpoint failed",
                extra=fields(endpoint=address, error=type(error).__name__),
            )
        self._rests_until[address] = self._clock() + REST_SECONDS

    def reached(self, endpoint: Endpoint) -> None:
        """Hear that an endpoint could be reached: it need not rest any more."""
        if self._rests_until.pop(endpoint.address, None) is not None:
            log.info("API server endpoint back", extra=fields(endpoint=endpoint.address))

    def _is_ready(self, endpoint: Endpoint) -> bool:
        now = self._clock()
        until = self._rests_until.get(endpoint.address)
        if until is None:
            return True
        if until > now:
            return False
        # Rested: whoever asks now tries it. The others wait for the news, so that an endpoint
        # that swallows connections delays one request at a time and not all of them.
        self._rests_until[endpoint.address] = now + REST_SECONDS
        return True
