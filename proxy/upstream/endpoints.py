"""API server endpoints: the order in which they are tried, and backoff for unreachable ones.

All endpoints belong to one cluster, with one CA and one credential. The first reachable endpoint
is used, so that consecutive requests reach the same server and its caches where possible.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# How long an unreachable endpoint is tried last. Long enough that requests do not queue at a dead
# endpoint, short enough that a recovered one is soon in use.
BACKOFF_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """The address of an API server, and the TLS context with its CA and the client certificate.

    Compared by identity: a new certificate creates a new endpoint.
    """

    host: str
    port: int
    server_name: str
    context: ssl.SSLContext

    @property
    def address(self) -> str:
        """Return host and port as they appear in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"https://{self.address}"


class EndpointProvider(Protocol):
    """Provides the current endpoints, which change with the client certificate and the CA."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return every endpoint, preferred first; at least one."""
        ...


class EndpointSet:
    """The endpoints of one cluster, and which of them could not be reached."""

    def __init__(self, known: EndpointProvider, clock: Callable[[], float]) -> None:
        self.provider = known
        self._clock = clock
        # By address, because reachability does not depend on the client certificate.
        self._backoff_until: dict[str, float] = {}

    @property
    def all(self) -> tuple[Endpoint, ...]:
        """Return the current endpoints."""
        return self.provider.endpoints

    def in_order(self) -> list[Endpoint]:
        """Return every endpoint in the order in which to try them; those in backoff are last.

        None is omitted: if all are in backoff, any of them may still be reachable.
        """
        ready: list[Endpoint] = []
        unreachable: list[Endpoint] = []
        for endpoint in self.provider.endpoints:
            (ready if self._is_ready(endpoint) else unreachable).append(endpoint)
        return ready + unreachable

    def mark_unreachable(self, endpoint: Endpoint, error: Exception) -> None:
        """Record that an endpoint could not be reached, and start its backoff."""
        address = endpoint.address
        if address not in self._backoff_until:
            log.warning(
                "API server endpoint failed",
                extra=fields(endpoint=address, error=type(error).__name__),
            )
        self._backoff_until[address] = self._clock() + BACKOFF_SECONDS

    def mark_reachable(self, endpoint: Endpoint) -> None:
        """Record that an endpoint was reached, and end its backoff."""
        if self._backoff_until.pop(endpoint.address, None) is not None:
            log.info("API server endpoint recovered", extra=fields(endpoint=endpoint.address))

    def _is_ready(self, endpoint: Endpoint) -> bool:
        now = self._clock()
        until = self._backoff_until.get(endpoint.address)
        if until is None:
            return True
        if until > now:
            return False
        # The backoff is over: this caller tries the endpoint, and the backoff restarts for all
        # others. So an endpoint that drops packets delays one request at a time, not all of them.
        self._backoff_until[endpoint.address] = now + BACKOFF_SECONDS
        return True
