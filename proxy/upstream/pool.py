"""The pool of connections to the API server: idle ones are reused, others opened on demand.

The pool has no limit. Every watch and every tunnel holds a connection, so a limit would make
requests wait without any error. The number of client connections bounds it.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import UpstreamUnavailable
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.endpoints import Endpoint, EndpointSet
from proxy.wire.http1.response_parser import CachingResponseParser
from proxy.wire.tcp import UNREACHABLE_SECONDS

# The API server closes idle connections after 90 s. The pool closes them well before, so that a
# request is seldom sent on a connection that is just being closed.
IDLE_SECONDS = 45.0
_RETRY_AFTER_SECONDS = 1


class PoolCounter(Protocol):
    """Counts connection attempts."""

    def upstream_connected(self) -> None:
        """Count a connection that was opened."""
        ...

    def upstream_connect_failed(self, reason: str) -> None:
        """Count a failed attempt; `reason` is timeout, tls or refused."""
        ...


class ConnectionPool:
    """Idle connections, reused newest first, so that the others expire when traffic is low."""

    def __init__(
        self,
        endpoints: EndpointSet,
        *,
        connect_timeout_seconds: float,
        clock: Callable[[], float],
        tasks: TaskSet,
        counter: PoolCounter | None = None,
    ) -> None:
        self._endpoints = endpoints
        # An endpoint that is not among these has an earlier client certificate or an earlier CA.
        self._known = endpoints.provider
        self._connect_timeout_seconds = connect_timeout_seconds
        self._clock = clock
        self._tasks = tasks
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self._counter = counter
        self._parser = CachingResponseParser()
        self._is_retired = False

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""
        return len(self._idle)

    @property
    def busy(self) -> int:
        """Return the number of connections that carry a request or are being opened."""
        return len(self._all) - len(self._idle)

    @property
    def is_empty(self) -> bool:
        """Return whether no connection is open."""
        return not self._all

    def acquire_idle(self) -> UpstreamConnection | None:
        """Return an idle connection that is ready for a request, or None.

        One with an earlier client certificate or an earlier CA is closed instead.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_open:
                continue
            if connection.endpoint in self._known.endpoints:
                return connection
            connection.close()
        return None

    async def connect(self) -> UpstreamConnection:
        """Open a new connection to the first reachable endpoint."""
        # A separate task, because a timeout needs one and the caller may run outside any task.
        connecting = self._tasks.start(self._connect())
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # The caller was cancelled, perhaps exactly when the connection became ready.
            connecting.add_done_callback(self._release_unused)
            raise

    def release(self, connection: UpstreamConnection) -> None:
        """Keep a connection for reuse, or close it if it is outdated or the pool is retired."""
        if self._is_retired or connection.endpoint not in self._known.endpoints:
            connection.close()
            return
        connection.is_reused = True
        connection.idle_since = self._clock()
        self._idle.append(connection)

    def close_expired(self) -> None:
        """Close connections that were idle for too long or are outdated; called periodically."""
        oldest_allowed = self._clock() - IDLE_SECONDS
        self._close_idle(
            lambda connection: (
                connection.idle_since < oldest_allowed
                or connection.endpoint not in self._known.endpoints
            )
        )

    def close_unreachable(self, *, after_seconds: float = UNREACHABLE_SECONDS) -> None:
        """Abort connections to an API server that is unreachable; called periodically."""
        for connection in list(self._all):
            connection.abort_if_unreachable(after_seconds)

    def retire(self) -> None:
        """Close idle connections now, and each busy one when its exchange ends."""
        self._is_retired = True
        self._close_idle(lambda _connection: True)

    def close(self) -> None:
        """Close every connection, busy ones too."""
        for connection in list(self._all):
            connection.abandon()

    async def _connect(self) -> UpstreamConnection:
        candidates = self._endpoints.in_order()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        failure: Exception | None = None
        for position, endpoint in enumerate(candidates):
            # An equal share of the remaining time, so that an endpoint that drops packets leaves
            # time for the others.
            share = (deadline - loop.time()) / (len(candidates) - position)
            try:
                async with asyncio.timeout(share):
                    connection = await self._open(endpoint)
            except (OSError, TimeoutError) as error:  # TLS errors are OSErrors
                failure = error
                self._failed(endpoint, error)
            else:
                self._endpoints.mark_reachable(endpoint)
                if self._counter is not None:
                    self._counter.upstream_connected()
                return connection
        # No byte of the request was sent, so the client may safely retry.
        raise UpstreamUnavailable(
            "the API server cannot be reached", retry_after_seconds=_RETRY_AFTER_SECONDS
        ) from failure

    async def _open(self, endpoint: Endpoint) -> UpstreamConnection:
        connection = UpstreamConnection(
            endpoint, parser=self._parser, on_idle=self.release, on_lost=self._remove
        )
        is_ready = False
        try:
            await asyncio.get_running_loop().create_connection(
                connection.as_protocol, endpoint.host, endpoint.port
            )
            self._all.add(connection)
            await connection.ready
            is_ready = True
        finally:
            if not is_ready:
                connection.abandon()
        return connection

    def _failed(self, endpoint: Endpoint, error: Exception) -> None:
        self._endpoints.mark_unreachable(endpoint, error)
        if self._counter is not None:
            self._counter.upstream_connect_failed(_reason(error))
        if len(self._endpoints.all) > 1:
            # An endpoint that accepts no new connections may be shutting down. Its idle connections
            # would fail next, and another endpoint is available.
            self._close_idle(lambda connection: connection.endpoint.address == endpoint.address)

    def _close_idle(self, must_close: Callable[[UpstreamConnection], bool]) -> None:
        for connection in list(filter(must_close, self._idle)):
            self._idle.remove(connection)
            connection.close()

    def _release_unused(self, connecting: asyncio.Task[UpstreamConnection]) -> None:
        if not connecting.cancelled() and connecting.exception() is None:
            connection = connecting.result()
            if connection.is_open:
                self.release(connection)

    def _remove(self, connection: UpstreamConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return "tls" if isinstance(error, ssl.SSLError) else "refused"
